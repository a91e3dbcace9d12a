// SPDX-License-Identifier: Apache-2.0
// Requests for mirrored files: they go to the primary of the group, and follow the group when another member leads.
#include <functional>

#include "job/event.h"
#include "tests/client/client_fixture.h"

namespace spate::client::testing {
namespace {

/// A member of a group that keeps no data and gives the answers that a test sets.
class StandInMember final : public rpc::Service {
 public:
  explicit StandInMember(job::Executor& executor) : executor_(executor) {
    serve(rpc::Access::kWriters, this, &StandInMember::write);
    serve(rpc::Access::kWriters, this, &StandInMember::flush);
  }
  job::Task<Result<void>> join(rpc::Peer&, const wire::AuthenticateRequest& request,
                               wire::AuthenticateReply& reply) override {
    if (!request.ticket) co_return Errc::kUnauthenticated;
    reply.client = request.client;
    reply.epoch = request.ticket->epoch;
    reply.ticket = *request.ticket;
    co_return Result<void>();
  }

  Errc failure = Errc::kOk;
  bool silent = false;
  std::function<void()> asked;  // called before each answer
  std::vector<wire::WriteRequest> writes;
  int flushes = 0;

 private:
  job::Task<Result<wire::DatafileState>> answer(rpc::Call& call) {
    if (asked) asked();
    if (silent) {
      job::Event never(executor_);
      std::ignore = co_await never.wait(call.stop);
      co_return Errc::kCancelled;
    }
    if (failure != Errc::kOk) co_return Error(failure, "as ordered");
    wire::DatafileState state;
    state.size = 100;
    state.change_counter = ++changes_;
    co_return state;
  }
  job::Task<Result<wire::WriteReply>> write(rpc::Call& call, wire::WriteRequest request) {
    writes.push_back(request);
    SPATE_CO_TRY(const wire::DatafileState state, co_await answer(call));
    wire::WriteReply reply;
    reply.datafiles.push_back(state);
    co_return reply;
  }
  job::Task<Result<wire::DatafileFlushReply>> flush(rpc::Call& call, wire::DatafileFlushRequest) {
    ++flushes;
    SPATE_CO_TRY(const wire::DatafileState state, co_await answer(call));
    wire::DatafileFlushReply reply;
    reply.datafiles.push_back(state);
    reply.lost.push_back(0);
    co_return reply;
  }
  job::Executor& executor_;
  std::uint64_t changes_ = 0;
};

class ClientGroupRequests : public ::testing::Test {
 protected:
  ClientGroupRequests()
      : executor_(clock_),
        random_(5),
        meta_host_(executor_, clock_, random_, 1),
        meta_(kFs, key(2), {kFirstGroup}, kStrip, clock_) {
    options_.map.fs = kFs;
    options_.map.servers.push_back({ServerId(1), {meta_host_.url}, {true, false}, {}});
    for (std::uint32_t id = 2; id <= 3; ++id) {
      hosts_.push_back(std::make_unique<Host>(executor_, clock_, random_, id));
      members_.push_back(std::make_unique<StandInMember>(executor_));
      hosts_.back()->server->add(*members_.back());
      hosts_.back()->server->start();
      options_.map.servers.push_back({ServerId(id), {hosts_.back()->url}, {false, true}, {target(id)}});
    }
    meta_host_.server->add(meta_);
    meta_host_.server->start();
    led_by(2, 1);
    options_.client_key = key(1);
    options_.deadline = std::chrono::seconds(20);
    options_.inline_write_bytes = 8192;
    std::vector<std::unique_ptr<bmi::Module>> modules;
    modules.push_back(bmi::tcp::make_tcp_module(clock_));
    network_ = bmi::make_network(std::move(modules));
    context_ = std::make_unique<job::NetworkContext>(*network_, executor_);
    client_ = std::make_unique<Client>(options_, *context_, random_);
    auto file = executor_.run(client_->create(path_from_root("f"), wire::kOpenRead | wire::kOpenWrite, {}));
    EXPECT_OK(file);
    if (file) file_ = *std::move(file);
  }
  ~ClientGroupRequests() override {
    file_.reset();
    executor_.run(client_->stop());
    for (auto& host : hosts_) executor_.run(host->server->stop());
    executor_.run(meta_host_.server->stop());
  }

  static TargetId target(std::uint32_t server) { return target_id(ServerId(server), 0); }
  void led_by(std::uint32_t server, std::uint64_t epoch, std::uint64_t loss = 0) {
    DataGroup group;
    group.id = kFirstGroup;
    group.epoch = epoch;
    group.primary = target(server);
    group.members = {{target(2), MemberState::kServing}, {target(3), MemberState::kServing}};
    group.loss = loss;
    meta_.groups[group.id] = group;
  }
  StandInMember& member(std::uint32_t server) { return *members_[server - 2]; }
  Result<void> write() {
    const Bytes data(100, std::byte{7});
    return executor_.run(file_->write(0, data));
  }

  SystemClock clock_;
  job::Executor executor_;
  SeededRandom random_;
  Options options_;
  Host meta_host_;
  StandInMeta meta_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<StandInMember>> members_;
  std::unique_ptr<bmi::Network> network_;
  std::unique_ptr<job::NetworkContext> context_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<File> file_;
};

TEST_F(ClientGroupRequests, ThePrimaryGetsTheRequestAndTheGroupsNumber) {
  ASSERT_OK(write());
  ASSERT_OK(write());
  ASSERT_EQ(member(2).writes.size(), 2U);
  EXPECT_EQ(member(2).writes[0].where.slots[0].target, kFirstGroup);
  EXPECT_EQ(member(3).writes.size(), 0U);
  EXPECT_EQ(meta_.group_questions, 1);
}

TEST_F(ClientGroupRequests, AMemberThatDoesNotLeadSendsTheClientToTheMetaServer) {
  ASSERT_OK(write());
  member(2).failure = Errc::kNotPrimary;
  led_by(3, 2);
  ASSERT_OK(write());
  EXPECT_EQ(member(2).writes.size(), 2U);
  EXPECT_EQ(member(3).writes.size(), 1U);
}

TEST_F(ClientGroupRequests, WhileNobodyLeadsTheClientAsksAgain) {
  int refusals = 0;
  member(2).failure = Errc::kNotPrimary;
  member(2).asked = [&] {
    if (++refusals == 4) member(2).failure = Errc::kOk;
  };
  ASSERT_OK(write());
  EXPECT_EQ(member(2).writes.size(), 4U);
}

TEST_F(ClientGroupRequests, ASilentPrimaryIsLeftWhenAnotherMemberLeads) {
  member(2).silent = true;
  member(2).asked = [&] { led_by(3, 2); };
  ASSERT_OK(write());
  EXPECT_EQ(member(2).writes.size(), 1U);
  EXPECT_EQ(member(3).writes.size(), 1U);
}

TEST_F(ClientGroupRequests, OtherErrorsOfThePrimaryAreReported) {
  member(2).failure = Errc::kIoError;
  EXPECT_ERRC(write(), Errc::kIoError);
  EXPECT_EQ(member(2).writes.size(), 1U);
}

TEST_F(ClientGroupRequests, AnotherPrimaryIsNoLostWrite) {
  ASSERT_OK(write());
  member(2).failure = Errc::kNotPrimary;
  led_by(3, 2);
  EXPECT_OK(executor_.run(file_->sync()));
  EXPECT_EQ(member(3).flushes, 1);
  ASSERT_OK(write());
  EXPECT_OK(executor_.run(file_->sync()));
}

TEST_F(ClientGroupRequests, ALossOfTheGroupIsALostWrite) {
  ASSERT_OK(write());
  member(2).failure = Errc::kNotPrimary;
  led_by(3, 2, 1);
  EXPECT_ERRC(executor_.run(file_->sync()), Errc::kLostWrite);
  ASSERT_OK(write());
  EXPECT_OK(executor_.run(file_->sync()));
}

}  // namespace
}  // namespace spate::client::testing
