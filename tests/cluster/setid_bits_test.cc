// SPDX-License-Identifier: Apache-2.0
// A change of a program's data by a user other than root removes set-uid and set-gid. The servers must see to it, for
// each kind of change and on each path.

#include <functional>

#include "base/expect.h"
#include "tests/cluster/calls.h"

namespace spate::cluster {
namespace {

using FilePtr = std::unique_ptr<client::File>;

constexpr ServerId kBeside{2};
constexpr std::uint32_t kUser = 1000;
constexpr std::uint32_t kLending = 06775;
constexpr std::uint32_t kPlain = 0775;

WorldOptions setid_bits_options() {
  WorldOptions options;
  options.io_servers = 2;
  options.bypass = io::BypassPolicy::kWrite;
  return options;
}

client::Options user_options() {
  client::Options options = small_client_options({}, {}, {});
  options.credential.uid = options.credential.gid = kUser;
  options.bypass = client::BypassMode::kWrite;
  options.bypass_when = {0, 0, Duration(0)};
  return options;
}

class SetidBitsTest : public ::testing::Test {
 protected:
  /// A change that a client makes by a file that is open for reading and writing.
  using Change = std::function<Errc(ClientProcess&, client::File&)>;

  template <typename T>
  T run(ClientProcess& client, job::Task<T> task) {
    return call(world_, client, std::move(task));
  }
  /// Makes a set-id program of the user with 20,000 bytes and a new name, which it returns.
  std::string make_program() {
    const std::string name = "program" + std::to_string(++programs_);
    auto made = run(root_, root_.client().create(client::path_from_root(name), kReadWrite, {}));
    EXPECT_OK(made);
    const Bytes data(20'000, std::byte{7});
    EXPECT_OK(run(root_, (*made)->write(0, data)));
    EXPECT_OK(run(root_, (*made)->close()));
    for (const bool owner : {true, false}) {
      wire::SetattrRequest request;
      request.where = client::path_from_root(name);
      if (owner) request.uid = request.gid = kUser;
      if (!owner) request.mode = kLending;
      EXPECT_OK(run(root_, root_.client().setattr(request)));
    }
    return name;
  }
  std::uint32_t mode(ClientProcess& client, const std::string& name) {
    const auto found = run(client, client.client().stat(client::path_from_root(name)));
    EXPECT_OK(found);
    return found ? found->attributes.mode : 0;
  }
  void expect_mode_after(ClientProcess& client, const Change& change, std::uint32_t expected) {
    const std::string name = make_program();
    auto opened = run(client, client.client().open(client::path_from_root(name), kReadWrite));
    ASSERT_OK(opened);
    EXPECT_EQ(mode(root_, name), kLending) << "an open changes nothing";
    EXPECT_EQ(change(client, **opened), Errc::kOk);
    EXPECT_EQ(mode(root_, name), expected) << "as others see it while the file is open";
    EXPECT_EQ(mode(client, name), expected) << "as the writer sees it";
    EXPECT_OK(run(client, (*opened)->close()));
    world_.run_for(std::chrono::seconds(2));
    EXPECT_EQ(mode(root_, name), expected) << "after the close";
  }
  void expect_gone_after(const Change& change) {
    expect_mode_after(user_, change, kPlain);
    expect_mode_after(root_, change, kLending);  // root's changes keep the bits
  }

  World world_{setid_bits_options()};
  ClientProcess& root_ = world_.start_client();
  ClientProcess& user_ = world_.start_client_beside(kBeside, user_options());
  int programs_ = 0;
};

TEST_F(SetidBitsTest, AWriterThatCachesAttributesSeesAtOnceThatTheyAreCleared) {
  client::Options options = user_options();
  options.keep_attributes = true;
  ClientProcess& writer = world_.start_client_beside(kBeside, options);
  const std::string name = make_program();
  auto opened = run(writer, writer.client().open(client::path_from_root(name), kReadWrite));
  ASSERT_OK(opened);
  EXPECT_EQ(mode(writer, name), kLending);
  EXPECT_OK(run(writer, (*opened)->write(100, Bytes(10))));
  EXPECT_EQ(mode(writer, name), kPlain);
  EXPECT_OK(run(writer, (*opened)->close()));
}

TEST_F(SetidBitsTest, AreClearedByASmallAndALargeWrite) {
  for (const std::size_t size : {1U, 15'000U}) {
    expect_gone_after([this, size](ClientProcess& client, client::File& file) {
      const Bytes data(size);
      return run(client, file.write(100, data)).code();
    });
  }
}

TEST_F(SetidBitsTest, AreClearedByAWriteOfALeaseHolder) {
  const std::uint64_t before = world_.bypassed_bytes();
  expect_mode_after(
      user_,
      [this](ClientProcess& client, client::File& file) {
        const Bytes data(4096);
        Errc code = Errc::kOk;
        for (int i = 0; i < 4 && code == Errc::kOk; ++i) code = run(client, file.write(0, data)).code();
        return code;
      },
      kPlain);
  EXPECT_GT(world_.bypassed_bytes(), before);
}

TEST_F(SetidBitsTest, AreClearedByAnAppend) {
  expect_gone_after([this](ClientProcess& client, client::File& file) {
    const Bytes data(10);
    const std::array<ByteView, 1> memory{ByteView(data)};
    return run(client, file.append(memory)).code();
  });
}

TEST_F(SetidBitsTest, AreClearedByAHoleAndByReservedSpace) {
  for (const bool hole : {true, false}) {
    expect_gone_after([this, hole](ClientProcess& client, client::File& file) {
      return run(client, hole ? file.punch(0, 4096) : file.allocate(0, 4096)).code();
    });
  }
}

TEST_F(SetidBitsTest, AreClearedByACopy) {
  const std::string source = make_program();
  for (const std::uint64_t offset : {0U, 777U}) {  // made by the servers, and by the client
    expect_gone_after([&, this](ClientProcess& client, client::File& file) {
      auto from = run(client, client.client().open(client::path_from_root(source), wire::kOpenRead));
      if (!from) return from.code();
      const Errc copied = run(client, file.copy_from(**from, {0, offset, 8192})).code();
      EXPECT_OK(run(client, (*from)->close()));
      return copied;
    });
  }
}

TEST_F(SetidBitsTest, AreClearedByATruncation) {
  expect_gone_after(
      [this](ClientProcess& client, client::File& file) { return run(client, file.truncate(10)).code(); });
}

TEST_F(SetidBitsTest, BitsSetBetweenTwoWritesAreClearedByTheSecond) {
  const std::string name = make_program();
  auto opened = run(user_, user_.client().open(client::path_from_root(name), kReadWrite));
  ASSERT_OK(opened);
  const Bytes data(100);
  ASSERT_OK(run(user_, (*opened)->write(0, data)));
  wire::SetattrRequest request;
  request.where = client::path_from_root(name);
  request.mode = kLending;
  ASSERT_OK(run(root_, root_.client().setattr(request)));
  EXPECT_EQ(mode(root_, name), kLending);
  ASSERT_OK(run(user_, (*opened)->write(0, data)));
  EXPECT_EQ(mode(root_, name), kPlain);
  EXPECT_OK(run(user_, (*opened)->close()));
  EXPECT_EQ(mode(root_, name), kPlain);
}

/// Root's session opens the file for a user and expires. It opens the file again at the user's next write.
TEST_F(SetidBitsTest, AreClearedByAUsersWriteAfterTheSessionHasExpired) {
  const std::string name = make_program();
  const auto flags = static_cast<std::uint8_t>(kReadWrite | wire::kOpenByUser);
  auto opened = run(root_, root_.client().open(client::path_from_root(name), flags));
  ASSERT_OK(opened);
  world_.fabric().links().partition(root_.node(), kMetaServer.value, true);
  world_.run_for(std::chrono::seconds(20));
  world_.fabric().links().partition(root_.node(), kMetaServer.value, false);
  EXPECT_EQ(mode(user_, name), kLending) << "an open changes nothing";
  const Bytes data(100);
  EXPECT_OK(run(root_, (*opened)->write(0, data)));
  EXPECT_EQ(mode(user_, name), kPlain);
  EXPECT_OK(run(root_, (*opened)->close()));
  world_.run_for(std::chrono::seconds(2));
  EXPECT_EQ(mode(user_, name), kPlain);
}

}  // namespace
}  // namespace spate::cluster
