// SPDX-License-Identifier: Apache-2.0
// Many threads on one instance. Any thread may post, and one thread tests each context.
#include <gmock/gmock.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <thread>

#include "base/expect.h"
#include "tests/bmi/harness.h"

namespace spate::bmi::conformance {
namespace {

// A thread with a context of its own, and the completions that it waits for.
class Worker {
 public:
  Worker(Network& network, ContextId context) : network_(network), context_(context) {}

  Completion wait(const Result<Posted>& posted) {
    if (!posted) return {{}, nullptr, posted.code(), 0};
    if (posted->done) return posted->completion;
    for (int idle = 0; idle < 10'000;) {
      std::array<Completion, 4> out;
      const std::size_t n = network_.test_context(context_, out);
      for (std::size_t i = 0; i < n; ++i) done_[out[i].op] = out[i];
      if (const auto it = done_.find(posted->op); it != done_.end()) {
        const Completion c = it->second;
        done_.erase(it);
        return c;
      }
      if (n > 0) continue;
      ++idle;
      sleep();
    }
    return {posted->op, nullptr, Errc::kTimeout, 0};
  }
  void sleep() {
    if (!network_.prepare_to_wait(context_)) return;
    pollfd fd{network_.wait_descriptor(context_), POLLIN, 0};
    ::poll(&fd, 1, 10);
  }
  Network& network() { return network_; }
  ContextId context() const { return context_; }

 private:
  Network& network_;
  ContextId context_;
  std::map<OpId, Completion> done_;
};

constexpr std::uint64_t kThreads = 4;
constexpr std::uint64_t kRounds = 150;

std::size_t size_of_round(std::uint64_t round) { return round % 5 == 0 ? 100'000 + round : 10 + round * 7; }

// Sends kRounds messages under its own tag to the echo and receives each one back. Returns how many came back wrong.
std::uint64_t talk(Worker& worker, Address server, std::uint64_t tag) {
  std::uint64_t wrong = 0;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const std::size_t size = size_of_round(round);
    const Bytes data = pattern(tag, round, size);
    Bytes room(size);
    const std::array<Segment, 1> in{Segment::of(MutableByteView(room))};
    const std::array<Segment, 1> out{Segment::of(ByteView(data))};
    const MessageClass c = round % 2 == 0 ? MessageClass::kBulk : MessageClass::kControl;
    Network& network = worker.network();
    const Result<Posted> receive = network.post_recv({server, Tag{tag + 1000}, c, in}, worker.context(), nullptr);
    const Result<Posted> send = network.post_send({server, Tag{tag}, c, out}, worker.context(), nullptr);
    if (worker.wait(send).status != Errc::kOk) ++wrong;
    if (worker.wait(receive).actual_size != size || first_difference(room, tag, round)) ++wrong;
  }
  return wrong;
}

void echo(Worker& worker, Address client, std::uint64_t tag) {
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const std::size_t size = size_of_round(round);
    Bytes room(size);
    const std::array<Segment, 1> segments{Segment::of(MutableByteView(room))};
    const MessageClass c = round % 2 == 0 ? MessageClass::kBulk : MessageClass::kControl;
    Network& network = worker.network();
    if (worker.wait(network.post_recv({client, Tag{tag}, c, segments}, worker.context(), nullptr)).status != Errc::kOk)
      return;
    if (worker.wait(network.post_send({client, Tag{tag + 1000}, c, segments}, worker.context(), nullptr)).status !=
        Errc::kOk)
      return;
  }
}

TEST_P(Bmi, ManyThreadsPostAndTestOnOneInstance) {
  if (!world_->traits().threads) GTEST_SKIP() << "virtual time has one thread";
  const Pair pair = start_pair();
  std::vector<Worker> clients;
  std::vector<Worker> servers;
  for (std::uint64_t i = 0; i < kThreads; ++i) {
    clients.emplace_back(*pair.client->network, (*pair.client)->open_context());
    servers.emplace_back(*pair.server->network, (*pair.server)->open_context());
  }
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { wrong += talk(clients[i], pair.to_server, i + 1); });
    threads.emplace_back([&, i] { echo(servers[i], pair.to_client, i + 1); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0U);
  for (const Worker& worker : clients) (*pair.client)->close_context(worker.context());
  for (const Worker& worker : servers) (*pair.server)->close_context(worker.context());
}

// One thread posts and cancels for the context that another one tests.
TEST_P(Bmi, OneThreadPostsAndCancelsWhatAnotherTests) {
  if (!world_->traits().threads) GTEST_SKIP() << "virtual time has one thread";
  const Pair pair = start_pair();
  constexpr std::uint64_t kCount = 2000;
  Bytes rooms(kCount);
  const Bytes data(1, std::byte{1});
  std::atomic<std::uint64_t> posted_count{0};
  Network& server = *pair.server->network;
  const ContextId context = pair.server->context;
  std::thread poster([&] {
    for (std::uint64_t i = 0; i < kCount; ++i) {
      const std::array<Segment, 1> segments{Segment::of(MutableByteView(&rooms[i], 1))};
      const Result<Posted> result =
          server.post_recv({pair.to_client, Tag{i}, MessageClass::kControl, segments}, context, nullptr);
      if (!result) continue;
      posted_count += result->done ? 0U : 1U;
      if (i % 3 == 0) server.cancel(result->op);
    }
  });
  for (std::uint64_t i = 0; i < kCount; ++i) send(*pair.client, {pair.to_server, i}, data);
  const std::uint64_t before = pair.server->completed;
  settle();
  poster.join();
  // Two of three get their message. The cancelled ones may have had theirs before.
  EXPECT_TRUE(drive([&] { return pair.server->completed - before == posted_count; }))
      << pair.server->completed - before << " of " << posted_count;
  for (const auto& [op, c] : pair.server->done) EXPECT_THAT(c.status, ::testing::AnyOf(Errc::kOk, Errc::kCancelled));
}

}  // namespace
}  // namespace spate::bmi::conformance
