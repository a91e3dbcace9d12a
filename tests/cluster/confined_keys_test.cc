// SPDX-License-Identifier: Apache-2.0
// The client library with a key that is confined to one directory (docs/security.md, "Keys for one directory"). Io
// servers do not tell it the sizes of files, so the meta server asks them.
#include "base/expect.h"
#include "tests/cluster/calls.h"
#include "wire/handshake.h"

namespace spate::cluster {
namespace {

using client::path_from_root;

class ConfinedClient : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kSize = 20'000;  // bytes, so many that every io server has some

  ConfinedClient() : world_(WorldOptions()), writer_(world_.start_client()) {}

  template <typename T>
  T run(ClientProcess& process, job::Task<T> task) {
    return call(world_, process, std::move(task));
  }
  Handle make_directory(const std::string& name) {
    wire::NewAttributes attributes;
    attributes.mode = 0777;
    const auto made = run(writer_, writer_.client().mkdir(path_from_root(name), attributes));
    EXPECT_OK(made);
    return made ? made->handle : Handle();
  }
  /// A file that is open for writing. Only the io servers know its size.
  std::unique_ptr<client::File> written(const std::string& name) {
    client::NewObject object;
    object.attributes.mode = 0666;
    auto made = run(writer_, writer_.client().create(path_from_root(name), kReadWrite, object));
    EXPECT_OK(made);
    if (!made) return nullptr;
    const Bytes data(kSize, std::byte{7});
    EXPECT_OK(run(writer_, (*made)->write(0, data)));
    return *std::move(made);
  }
  ClientProcess& holder(Handle directory) {
    UserKey restrictions;
    restrictions.id.fill(std::byte{7});
    restrictions.user = {1000, 100, {}};
    restrictions.directory = directory;
    const wire::FileKey issuer(world_.settings().map.fs, world_.settings().client_key);
    ClientKey key;
    key.issuer = issuer.id();
    key.restrictions = encoded(restrictions);
    key.secret = issuer.for_user(key.restrictions).secret;
    client::Options options = small_client_options({}, {}, {});
    options.client_key = key;
    options.credential = restrictions.user;
    options.deadline = std::chrono::hours(1);  // so that the meta server gives up first
    options.attempt_timeout = std::chrono::hours(1);
    return world_.start_client(std::move(options));
  }
  void between_meta_and_io(bool cut) {
    for (const ServerId server : world_.servers()) {
      if (server != kMetaServer) world_.fabric().links().partition(kMetaServer.value, server.value, cut);
    }
  }

  World world_;
  ClientProcess& writer_;
};

TEST_F(ConfinedClient, ASizeThatTheMetaServerCannotLearnIsAnErrorAndNotASize) {
  ClientProcess& user = holder(make_directory("data"));
  const auto file = written("data/f");
  ASSERT_NE(file, nullptr);
  const auto size = [&] { return run(user, user.client().stat(path_from_root("data/f"))); };
  const auto before = size();
  ASSERT_OK(before);
  EXPECT_EQ(before->attributes.size, kSize);
  between_meta_and_io(true);
  EXPECT_ERRC(size(), Errc::kUnreachable);
  between_meta_and_io(false);
  const auto after = size();
  ASSERT_OK(after);
  EXPECT_EQ(after->attributes.size, kSize);
}

}  // namespace
}  // namespace spate::cluster
