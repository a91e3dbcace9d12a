// SPDX-License-Identifier: Apache-2.0
// Two meta servers of which both must hold a change: without one of them changes of names wait, and reads go on.
#include <gmock/gmock.h>

#include <functional>

#include "base/expect.h"
#include "tests/cluster/calls.h"

namespace spate::cluster {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

WorldOptions world_options() {
  WorldOptions options;
  options.meta_servers = 2;
  options.io_servers = 1;
  options.meta_min_copies = 2;
  return options;
}

client::Options client_options(Duration deadline) {
  client::Options options = small_client_options({}, {}, {});
  options.deadline = deadline;
  options.keep_attributes = false;  // each look-up asks the meta server
  return options;
}

class MetaMinCopies : public testing::TestWithParam<bool> {
 protected:
  MetaMinCopies() : world_(world_options()), client_(world_.start_client(client_options(2min))) {
    EXPECT_TRUE(until([this] { return world_.is_whole(); })) << "the group does not become whole";
    EXPECT_OK(call(world_, client_, make("before")));
    const auto made = call(world_, client_, client_.client().create(client::path_from_root("file"), kReadWrite, {}));
    EXPECT_OK(made);
    if (made) {
      EXPECT_OK(call(world_, client_, (*made)->close()));
    }
  }
  job::Task<Result<void>> make(std::string name) {
    const wire::NewAttributes attributes;
    SPATE_CO_TRY(std::ignore, co_await client_.client().mkdir(client::path_from_root(name), attributes));
    co_return Result<void>();
  }
  bool until(const std::function<bool()>& condition) {
    const MonoTime limit = world_.now() + 30s;
    while (!condition() && world_.now() < limit) std::ignore = world_.turn(limit);
    return condition();
  }
  /// The server that is to be lost: the one that leads, or the other one.
  ServerId victim() {
    const std::vector<ServerId> metas = world_.meta_servers();
    const ServerId other = metas.front() == world_.leader() ? metas.back() : metas.front();
    return GetParam() ? world_.leader() : other;
  }
  Errc look_up(ClientProcess& client, const std::string& name) {
    return call(world_, client, client.client().lookup(client::path_from_root(name))).code();
  }

  Errc open_file(ClientProcess& client, unsigned flags) {
    const auto where = client::path_from_root("file");
    const auto opened = call(world_, client, client.client().open(where, static_cast<std::uint8_t>(flags)));
    if (opened) {
      EXPECT_OK(call(world_, client, (*opened)->close()));
    }
    return opened.code();
  }

  World world_;
  ClientProcess& client_;
};

TEST_P(MetaMinCopies, ChangesWaitForTheLostServerAndReadsGoOn) {
  const ServerId lost = victim();
  world_.kill_server(lost, bmi::sim::Death::kProcess);
  const auto pending = begin_call(client_, make("after"));
  world_.run_for(12s);
  EXPECT_FALSE(pending->has_value()) << "a change is answered that one server holds";
  ClientProcess& reader = world_.start_client(client_options(8s));
  EXPECT_EQ(look_up(reader, "before"), Errc::kOk);
  EXPECT_EQ(look_up(reader, "no such name"), Errc::kNotFound);
  ClientProcess& hasty = world_.start_client(client_options(4s));
  EXPECT_EQ(open_file(hasty, wire::kOpenRead), Errc::kOk) << "a file cannot be read";
  EXPECT_EQ(open_file(hasty, wire::kOpenWrite | wire::kOpenTruncate), Errc::kTimeout);
  world_.start_server(lost);
  EXPECT_OK(end_call(world_, pending));
  EXPECT_EQ(look_up(reader, "after"), Errc::kOk);
}

// Otherwise the loss of that server would make the key valid again.
TEST_P(MetaMinCopies, AKeyIsNotRevokedWhileOneServerHoldsTheList) {
  const ServerId lost = victim();
  world_.kill_server(lost, bmi::sim::Death::kProcess);
  wire::RevokeKeysRequest request;
  client::Session& session = client_.client().session();
  ASSERT_OK(call(world_, client_, session.ask(request, session.limits()))) << "the keys cannot be listed";
  request.keys = {KeyId{std::byte{7}}};
  const auto revoked = begin_call(client_, session.ask(request, session.limits()));
  world_.run_for(12s);
  EXPECT_FALSE(revoked->has_value()) << "the answer came although one server holds the list";
  world_.start_server(lost);
  const auto reply = end_call(world_, revoked);
  ASSERT_OK(reply);
  EXPECT_EQ(reply->revoked.size(), 1U);
}

TEST_P(MetaMinCopies, TheErrorAfterTheDeadlineSaysWhy) {
  world_.kill_server(victim(), bmi::sim::Death::kProcess);
  world_.run_for(6s);
  ClientProcess& hasty = world_.start_client(client_options(8s));
  const wire::NewAttributes attributes;
  const auto failed = call(world_, hasty, hasty.client().mkdir(client::path_from_root("after"), attributes));
  EXPECT_ERRC(failed, Errc::kTimeout);
  EXPECT_THAT(failed.error().message(), HasSubstr("too few meta servers hold the name space (meta.min_copies)"));
}

INSTANTIATE_TEST_SUITE_P(Loses, MetaMinCopies, testing::Bool(),
                         [](const auto& info) { return info.param ? "TheLeader" : "TheBackup"; });

}  // namespace
}  // namespace spate::cluster
