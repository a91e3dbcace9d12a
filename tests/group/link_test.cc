// SPDX-License-Identifier: Apache-2.0
// The servers of a group over a simulated network: slow messages, and requests of unknown types.
#include "base/expect.h"
#include "bmi/sim/fabric.h"
#include "group/channel_link.h"
#include "group/timing.h"
#include "rpc/server.h"
#include "wire/group_messages.h"

namespace spate::group {
namespace {

using std::chrono::seconds;

constexpr FsId kFs{0xF5};
constexpr ServerId kServer{2};

Key some_key() {
  Key key{};
  key.fill(std::byte{7});
  return key;
}

class StubGate final : public rpc::ReplyGate {
 public:
  job::Task<Result<void>> pass(bool /*needs_copies*/, job::StopToken /*stop*/) override { co_return Result<void>(); }
  bool serves() const override { return serving; }
  Error elsewhere() const override { return Error::told(Errc::kNotPrimary, "server 9 leads"); }
  std::string part() const override { return "backup"; }
  bool serving = false;
};

/// A member that answers after a delay.
class SlowMember final : public rpc::Service {
 public:
  explicit SlowMember(job::Executor& executor) : executor_(executor) {
    serve(rpc::Access::kServersOnly, this, &SlowMember::take);
  }
  job::Task<Result<void>> join(rpc::Peer& /*peer*/, const wire::AuthenticateRequest& /*request*/,
                               wire::AuthenticateReply& /*reply*/) override {
    if (backup) co_return Error::told(Errc::kNotPrimary, "server 9 leads");
    co_return Result<void>();
  }
  bool backup = false;
  Duration takes{0};
  int messages = 0;

 private:
  job::Task<Result<wire::GroupMessageReply>> take(rpc::Call& /*call*/, wire::GroupMessageRequest /*request*/) {
    ++messages;
    std::ignore = co_await executor_.sleep(takes);
    wire::GroupMessageReply reply;
    reply.bytes = encode(Answer());
    co_return reply;
  }
  job::Executor& executor_;
};

class GroupLink : public testing::Test {
 protected:
  struct Node {
    Node(GroupLink& world, std::uint32_t number) {
      std::vector<std::unique_ptr<bmi::Module>> modules;
      modules.push_back(bmi::sim::attach(world.fabric_, number));
      network = bmi::make_network(std::move(modules));
      context = std::make_unique<job::NetworkContext>(*network, world.executor_);
    }
    std::unique_ptr<bmi::Network> network;
    std::unique_ptr<job::NetworkContext> context;
  };

  GroupLink() {
    const std::string url = bmi::sim::url_of({kServer.value, 0});
    EXPECT_OK(there_.network->listen(url, there_.context->id()));
    rpc::ServerOptions options;
    options.fs = kFs;
    options.server = kServer;
    options.client_key = Key{};
    options.server_key = some_key();
    server_ = std::make_unique<rpc::Server>(options, *there_.context, random_, metrics_);
    server_->add(member_);
    server_->set_gate(gate_);
    server_->start();
    ChannelLinkOptions link;
    link.fs = kFs;
    link.server_key = some_key();
    link.members = {{kServer, {url}}};
    link_ = std::make_unique<ChannelLink>(link, *here_.context, random_);
    identity_.kind = wire::PeerKind::kServer;
    identity_.fs = kFs;
    identity_.key = some_key();
    rpc::ChannelOptions channel;
    channel.urls = {url};
    channel.server = kServer;
    channel_ = std::make_unique<rpc::Channel>(channel, *here_.context, identity_, random_);
  }
  ~GroupLink() override {
    std::optional<bool> ended;
    job::spawn(tasks_, stop(*server_, ended));
    turn_until([&] { return ended.has_value(); });
    ended.reset();
    job::spawn(closing_, close(ended));
    turn_until([&] { return ended.has_value(); });
  }

  template <class Condition>
  void turn_until(const Condition& condition) {
    while (!condition()) {
      if (executor_.step()) continue;
      const MonoTime next = std::min(fabric_.next_event_time(), executor_.next_timer());
      ASSERT_LT(next, MonoTime() + std::chrono::hours(1));
      if (fabric_.next_event_time() <= next) {
        fabric_.deliver_next();
      } else {
        fabric_.run_until(next);
      }
    }
  }
  template <class T>
  T run(job::Task<T> task) {
    std::optional<T> result;
    job::spawn(tasks_, keep(std::move(task), result));
    turn_until([&] { return result.has_value(); });
    return *std::move(result);
  }
  Result<Answer> send(Duration timeout) {
    return run(link_->send(kServer, std::make_shared<const Message>(), timeout, {}));
  }
  static job::Task<void> stop(rpc::Server& server, std::optional<bool>& ended) {
    co_await server.stop();
    ended = true;
  }
  Errc ask_what_nobody_knows() {
    rpc::CallOptions options;
    options.deadline = clock_.now() + seconds(5);
    return run(channel_->call(static_cast<wire::Op>(60'000), {}, options)).code();
  }

  ManualClock clock_;
  SeededRandom random_{1};
  bmi::sim::Fabric fabric_{clock_, random_};
  job::Executor executor_{clock_};
  metrics::Registry metrics_;
  Node here_{*this, 1};
  Node there_{*this, kServer.value};
  job::Gate tasks_{executor_};
  job::Gate closing_{executor_};
  StubGate gate_;
  SlowMember member_{executor_};
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<ChannelLink> link_;
  rpc::Identity identity_;
  std::unique_ptr<rpc::Channel> channel_;

 private:
  template <class T>
  static job::Task<void> keep(job::Task<T> task, std::optional<T>& result) {
    auto value = co_await std::move(task);
    result.emplace(std::move(value));
  }
  job::Task<void> close(std::optional<bool>& ended) {
    co_await tasks_.close();
    ended = true;
  }
};

/// A page of a copy that arrives twice would make the copy begin again.
TEST_F(GroupLink, AMessageThatTakesLongIsSentOnce) {
  member_.takes = seconds(4);
  ASSERT_OK(send(Timing().copy_message));
  EXPECT_EQ(member_.messages, 1);
}

TEST_F(GroupLink, AMessageIsGivenUpAfterItsTimeout) {
  member_.takes = seconds(4);
  const MonoTime begin = clock_.now();
  EXPECT_ERRC(send(seconds(1)), Errc::kTimeout);
  EXPECT_LT(clock_.now() - begin, std::chrono::milliseconds(1100));
}

TEST_F(GroupLink, AFollowerNamesTheLeader) { EXPECT_EQ(ask_what_nobody_knows(), Errc::kNotPrimary); }

TEST_F(GroupLink, ALeaderRefusesAnUnknownRequest) {
  gate_.serving = true;
  EXPECT_EQ(ask_what_nobody_knows(), Errc::kNotSupported);
}

/// The leader knows that the key was revoked; the others say only that they do not lead.
TEST_F(GroupLink, ARefusalThatLastsIsReportedAlthoughTheOtherServersDoNotLead) {
  Node leader(*this, 3);
  const std::string url = bmi::sim::url_of({3, 0});
  ASSERT_OK(leader.network->listen(url, leader.context->id()));
  rpc::ServerOptions options;
  options.fs = kFs;
  options.server = ServerId(3);
  options.client_key = Key{};
  options.server_key = Key{};
  metrics::Registry metrics;
  rpc::Server refuses(options, *leader.context, random_, metrics);
  refuses.start();
  member_.backup = true;
  rpc::ChannelOptions group;
  group.urls = {url, bmi::sim::url_of({kServer.value, 0})};
  group.group_silence = seconds(1);
  rpc::Channel channel(group, *here_.context, identity_, random_);
  rpc::CallOptions call;
  const MonoTime begin = clock_.now();
  call.deadline = begin + seconds(30);
  const auto reply = run(channel.call(wire::Op::kGroupMessage, {}, call));
  EXPECT_ERRC(reply, Errc::kUnauthenticated);
  EXPECT_GE(clock_.now() - begin, seconds(4)) << "an election may be under way";
  EXPECT_LT(clock_.now() - begin, seconds(10));
  std::optional<bool> ended;
  job::spawn(tasks_, stop(refuses, ended));
  turn_until([&] { return ended.has_value(); });
}

}  // namespace
}  // namespace spate::group
