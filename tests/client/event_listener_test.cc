// SPDX-License-Identifier: Apache-2.0
// Events of a session: each is taken once, acknowledged to the process of the meta server that has sent it, and to no
// other one.
#include "client/session/event_listener.h"

#include "client/attributes/attribute_cache.h"
#include "client/session/session.h"
#include "job/event.h"
#include "tests/client/client_fixture.h"

namespace spate::client::testing {
namespace {

/// The part of a meta server that tells events. A request waits until there are events, or until release().
class StandInEvents final : public rpc::Service {
 public:
  explicit StandInEvents(job::Executor& executor) : told_(executor), asked_(executor) {
    serve(rpc::Access::kWriters, this, &StandInEvents::fetch);
  }
  job::Task<Result<void>> join(rpc::Peer&, const wire::AuthenticateRequest&, wire::AuthenticateReply&) override {
    co_return Result<void>();
  }

  void tell(wire::SessionEvent event) {
    events_.push_back(event);
    release();
  }
  /// The server is another process from now on. It has no events.
  void restart() {
    ++table;
    events_.clear();
    release();
  }
  void begin_epoch(std::uint32_t number) {
    epoch_ = number;
    release();
  }
  /// Ends when this many requests have come.
  job::Task<void> until(std::size_t count) {
    while (requests.size() < count) {
      asked_.reset();
      std::ignore = co_await asked_.wait();
    }
  }

  std::uint64_t table = 1;
  std::vector<wire::SessionEventsRequest> requests;

 private:
  void release() {
    told_.set();
    told_.reset();
  }
  job::Task<Result<wire::SessionEventsReply>> fetch(rpc::Call& call, wire::SessionEventsRequest request) {
    requests.push_back(request);
    asked_.set();
    if (request.table == table)
      std::erase_if(events_, [&](const auto& event) { return event.number <= request.acknowledged; });
    if (events_.empty() && request.hold_ms > 0 && call.header.session_epoch == epoch_)
      std::ignore = co_await told_.wait(call.stop);
    if (call.header.session_epoch != epoch_) co_return Error(Errc::kSessionFenced, "it has run out");
    wire::SessionEventsReply reply;
    reply.table = table;
    if (request.table == 0 || request.table == table) reply.events = events_;
    co_return reply;
  }

  std::uint32_t epoch_ = 1;
  std::vector<wire::SessionEvent> events_;
  job::Event told_;
  job::Event asked_;
};

/// Records what it is told. A claim succeeds at once, and after it a caller waits for a lock.
class StandInLocks final : public SessionLocks {
 public:
  StandInLocks(job::Executor& executor, EventListener& events, const StandInEvents& server)
      : events_(events), server_(server), took_(executor) {}
  /// Ends when an event has been taken.
  job::Task<void> until_taken() { std::ignore = co_await took_.wait(); }

  bool want_events() const override { return wants; }
  void take(const wire::SessionEvent& event) override {
    taken.push_back(event.subject);
    took_.set();
    if (only_one) wants = false;
  }
  void session_changed() override { ++sessions; }
  bool must_claim() const override { return locked; }
  bool idle() const override { return false; }
  job::Task<Result<void>> reclaim(std::uint64_t stale) override {
    claims.push_back(stale);
    wants = true;
    events_.answered(server_.table);
    co_return Result<void>();
  }
  job::Task<void> cancel_abandoned(job::StopToken) override { co_return; }

  bool wants = true;
  bool only_one = false;  // no event is wanted after the first
  bool locked = false;
  int sessions = 0;
  std::vector<std::uint64_t> taken;
  std::vector<std::uint64_t> claims;

 private:
  EventListener& events_;
  const StandInEvents& server_;
  job::Event took_;
};

/// A client that gathers no writes.
class NoWrites final : public SessionWrites {
 public:
  bool any() const override { return false; }
  job::Task<bool> send_revoked(Duration) override { co_return true; }
};

/// A client that queues no changes.
class NoChanges final : public SessionChanges {
 public:
  bool on() const override { return false; }
  void session_changed() override {}
  job::Task<bool> send_all_within(Duration) override { co_return true; }
};

constexpr auto kGranted = wire::SessionEventType::kLockGranted;

class EventListenerTest : public ::testing::Test, private SessionObserver {
 protected:
  EventListenerTest()
      : executor_(clock_),
        random_(5),
        meta_host_(executor_, clock_, random_, 1),
        meta_(kFs, key(2), {}, kStrip, clock_),
        server_(executor_) {
    meta_host_.server->add(meta_);
    meta_host_.server->add(server_);
    meta_host_.server->start();
    Options options;
    options.map.fs = kFs;
    options.map.servers.push_back({ServerId(1), {meta_host_.url}, {true, false}, {}});
    options.client_key = key(1);
    options.deadline = std::chrono::seconds(20);
    std::vector<std::unique_ptr<bmi::Module>> modules;
    modules.push_back(bmi::tcp::make_tcp_module(clock_));
    network_ = bmi::make_network(std::move(modules));
    context_ = std::make_unique<job::NetworkContext>(*network_, executor_);
    session_ = std::make_unique<Session>(std::move(options), *context_, random_);
    session_->observe(*this);
    cache_ = std::make_unique<AttributeCache>(AttributeCache::Options(), clock_);
    events_ = std::make_unique<EventListener>(*session_, *cache_, writes_, changes_);
    locks_ = std::make_unique<StandInLocks>(executor_, *events_, server_);
    events_->serve(*locks_);
    EXPECT_OK(executor_.run(session_->ensure_open(session_->limits())));
  }
  ~EventListenerTest() override {
    session_->request_stop();
    events_->request_stop();
    executor_.run(events_->stop());
    executor_.run(session_->stop(session_->limits()));
    executor_.run(meta_host_.server->stop());
  }

  void handshake_begins() override {}
  void meta_restarted() override {}
  void session_changed() override { events_->check_session(); }
  void heard() override {}
  job::Task<void> end_inheritance() override { co_return; }
  bool lost_lock(Handle) override { return false; }
  bool must_follow(wire::Op, ByteView) override { return false; }
  job::Task<Result<void>> send_queued(Limits) override { co_return Result<void>(); }

  SystemClock clock_;
  job::Executor executor_;
  SeededRandom random_;
  Host meta_host_;
  StandInMeta meta_;
  StandInEvents server_;
  std::unique_ptr<bmi::Network> network_;
  std::unique_ptr<job::NetworkContext> context_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<AttributeCache> cache_;
  NoWrites writes_;
  NoChanges changes_;
  std::unique_ptr<EventListener> events_;
  std::unique_ptr<StandInLocks> locks_;
};

TEST_F(EventListenerTest, AnEventIsTakenOnceAndTheNextRequestAcknowledgesIt) {
  events_->start();
  events_->start();  // one request is open, and no more
  executor_.run(server_.until(1));
  server_.tell({4, kGranted, 44});
  executor_.run(server_.until(2));
  server_.tell({5, kGranted, 55});
  executor_.run(server_.until(3));
  EXPECT_EQ(locks_->taken, (std::vector<std::uint64_t>{44, 55}));
  EXPECT_EQ(server_.requests[0].acknowledged, 0U);
  EXPECT_EQ(server_.requests[1].acknowledged, 4U);
  EXPECT_EQ(server_.requests[2].acknowledged, 5U);
  EXPECT_EQ(server_.requests[2].table, server_.table);
  EXPECT_EQ(locks_->claims.size(), 0U);
}

TEST_F(EventListenerTest, NoRequestWaitsWhenNobodyWantsEvents) {
  locks_->wants = false;
  locks_->locked = true;
  events_->start();
  events_->heard();
  executor_.run(server_.until(1));
  EXPECT_EQ(server_.requests[0].hold_ms, 0U);
}

TEST_F(EventListenerTest, AnotherProcessOfTheServerGetsAClaimWhileTheListenerListens) {
  locks_->locked = true;
  events_->start();
  executor_.run(server_.until(1));
  server_.tell({4, kGranted, 44});
  executor_.run(server_.until(2));
  server_.restart();
  executor_.run(server_.until(3));
  EXPECT_EQ(locks_->claims, std::vector<std::uint64_t>{1});
  EXPECT_EQ(server_.requests[2].table, 2U);
  EXPECT_EQ(server_.requests[2].acknowledged, 0U);
}

/// The numbers of its events begin anew, so an acknowledgment of the other process's events would cover some of them.
TEST_F(EventListenerTest, AnotherProcessOfTheServerGetsNoAcknowledgmentOfEventsThatItHasNotSent) {
  locks_->locked = locks_->only_one = true;
  events_->start();
  executor_.run(server_.until(1));
  server_.tell({4, kGranted, 44});
  executor_.run(locks_->until_taken());
  server_.restart();
  events_->heard();
  executor_.run(server_.until(3));
  EXPECT_EQ(server_.requests[1].acknowledged, 4U);
  EXPECT_EQ(locks_->claims, std::vector<std::uint64_t>{1});
  EXPECT_EQ(server_.requests[2].table, 2U);
  EXPECT_EQ(server_.requests[2].acknowledged, 0U);
}

TEST_F(EventListenerTest, AnswersOfAnEarlierEpochAreDropped) {
  events_->start();
  executor_.run(server_.until(1));
  server_.tell({4, kGranted, 44});
  executor_.run(server_.until(2));
  const int sessions = locks_->sessions;
  meta_.epoch = 2;
  server_.begin_epoch(2);
  executor_.run(server_.until(3));  // the second request again, in the new epoch
  EXPECT_EQ(locks_->sessions, sessions + 1);
  EXPECT_EQ(events_->epoch().epoch, 2U);
  EXPECT_EQ(events_->table(), 0U);
  server_.tell({9, kGranted, 99});
  executor_.run(server_.until(5));
  EXPECT_EQ(server_.requests[3].table, 0U);
  EXPECT_EQ(server_.requests[3].acknowledged, 0U);
  EXPECT_EQ(server_.requests[4].acknowledged, 9U);
  EXPECT_EQ(locks_->taken, (std::vector<std::uint64_t>{44, 99}));
}

}  // namespace
}  // namespace spate::client::testing
