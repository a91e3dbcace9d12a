// SPDX-License-Identifier: Apache-2.0
// Measures the patterns over bmi, with a network instance in each process. Prints one number, as mpi_program.c does.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <numeric>

#include "assembly/registry.h"
#include "base/check.h"
#include "base/clock.h"
#include "bmi/group.h"
#include "bmi/network.h"
#include "bmi/plan.h"

namespace spate::bench {
namespace {

using bmi::Segment;

constexpr bmi::Tag kRequest(1);
constexpr bmi::Tag kAck(2);
constexpr bmi::Tag kData(3);

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string listen_url(const std::string& network) {
  return network + (network == "shm" || network == "ofi+shm" ? "://*" : "://127.0.0.1:0");
}

/// A file system with one address of that network. For tcp+tls, the file SPATE_BENCH_KEY holds the key.
config::FileSystemConfig config_for(const std::string& network) {
  config::FileSystemConfig config;
  config.fs.id = FsId(1);
  config.servers.emplace_back().urls = {listen_url(network)};
  if (const char* const key = std::getenv("SPATE_BENCH_KEY")) config.fs.server_key_file = key;
  return config;
}

/// The side of one process: a network instance, a context, and the peers that it has talked to.
class End {
 public:
  explicit End(const plan& plan) : plan_(plan) {
    auto made = assembly::make_network(clock_, config_for(plan.network), true);
    SPATE_CHECK(made.has_value());
    network_ = *std::move(made);
    context_ = network_->open_context();
  }

  std::string listen() { return network_->listen(listen_url(plan_.network), context_).value(); }
  /// Connects to the process at `url` and returns its address.
  bmi::Address call(const std::string& url) {
    const bmi::Address peer = network_->lookup(std::array{url}).value();
    bmi::Message hello;
    hello.peer = peer;
    hello.tag = kRequest;
    post(network_->post_send_unexpected(hello, context_, &open_), open_);
    called_ = peer;
    drain();
    while (!network_->peer_info(peer).connected) step();
    return peer;
  }
  /// Waits for the next process that calls, and admits it.
  bmi::UnexpectedMessage answer() {
    std::array<bmi::UnexpectedMessage, 1> message;
    while (network_->test_unexpected(context_, message) == 0) step();
    network_->admit(message[0].peer);  // a peer that is not admitted may open no connection for bulk data
    return std::move(message[0]);
  }
  std::size_t answer_if_there(std::span<bmi::UnexpectedMessage> out) {
    return network_->test_unexpected(context_, out);
  }

  /// `open` counts the operations in flight; null: open() counts them.
  void receive(bmi::Address peer, bmi::Tag tag, bmi::MessageClass c, bmi::SegmentList to,
               std::uint64_t* open = nullptr) {
    std::uint64_t& counter = open == nullptr ? open_ : *open;
    post(network_->post_recv({peer, tag, c, to}, context_, &counter), counter);
  }
  void send(bmi::Address peer, bmi::Tag tag, bmi::MessageClass c, bmi::SegmentList from,
            std::uint64_t* open = nullptr) {
    std::uint64_t& counter = open == nullptr ? open_ : *open;
    const bool ready = plan_.ready != 0 && c == bmi::MessageClass::kBulk;
    post(network_->post_send({peer, tag, c, from, ready}, context_, &counter), counter);
  }
  void send_unexpected(bmi::Address peer, bmi::SegmentList from) {
    bmi::Message message;
    message.peer = peer;
    message.tag = kRequest;
    message.segments = from;
    post(network_->post_send_unexpected(message, context_, &open_), open_);
  }
  std::uint64_t open() const { return open_; }
  void drain() {
    while (open_ > 0) step();
  }
  /// Handles completions. If there are none, it sleeps until there may be some, or returns at once when told to poll.
  void step() {
    const std::size_t n = network_->test_context(context_, done_);
    for (std::size_t i = 0; i < n; ++i) {
      if (done_[i].status != Errc::kOk) give_up(done_[i].status);
      --*static_cast<std::uint64_t*>(done_[i].user);
    }
    if (n == 0 && plan_.poll == 0 && network_->prepare_to_wait(context_))
      (void)network_->wait(context_, std::chrono::seconds(1));
  }
  MutableByteView buffer(std::size_t size) {
    if (plan_.allocated != 0) return touched(network_->mem_alloc(size));
    auto& plain = plain_.emplace_back(size);
    return touched(plain);
  }

 private:
  /// Reports why the measurement cannot go on, and ends the process.
  void give_up(Errc status) const {
    fmt::print(stderr, "bmi_program: {}\n", describe(status));
    if (called_) {
      for (const bmi::FailedUrl& failed : network_->peer_info(called_).failed)
        fmt::print(stderr, "{}: {}\n", failed.url, failed.reason);
    }
    ::_exit(1);
  }
  static MutableByteView touched(MutableByteView memory) {
    std::memset(memory.data(), 1, memory.size());
    return memory;
  }
  static void post(const Result<bmi::Posted>& posted, std::uint64_t& open) {
    SPATE_CHECK(posted.has_value());
    if (!posted->done) {
      ++open;
    } else {
      SPATE_CHECK(posted->completion.status == Errc::kOk);
    }
  }

  const plan& plan_;
  SystemClock clock_;
  std::unique_ptr<bmi::Network> network_;
  bmi::ContextId context_;
  bmi::Address called_;
  std::uint64_t open_ = 0;
  std::array<bmi::Completion, 64> done_;  // a member, since clearing it for each test would cost more than the test
  std::vector<std::vector<std::byte>> plain_;
};

/// Rank 0 listens and rank 1 connects to it. Returns the other process's address.
bmi::Address meet(End& end, Group& group, int rank) {
  if (rank == 0) group.tell(0, end.listen());
  group.barrier();
  const bmi::Address peer = rank == 0 ? end.answer().peer : end.call(group.hear(0));
  group.barrier();
  return peer;
}

double round_trip(const plan& plan, Group& group, int rank) {
  End end(plan);
  const bmi::Address peer = meet(end, group, rank);
  const Segment out = Segment::of(end.buffer(plan.size));
  const Segment in = Segment::of(end.buffer(plan.size));
  struct batches batches{};
  for (long i = -plan.count / 10; i <= plan.count; ++i) {
    if (i == batches.next) batches_note(&batches, &plan, now());
    end.receive(peer, kData, bmi::MessageClass::kControl, {&in, 1});
    if (rank == 1) end.send(peer, kData, bmi::MessageClass::kControl, {&out, 1});
    end.drain();
    if (rank == 0) end.send(peer, kData, bmi::MessageClass::kControl, {&out, 1});
  }
  end.drain();
  group.barrier();
  return batches_median(&batches, &plan);
}

double stream(const plan& plan, Group& group, int rank) {
  End end(plan);
  const bmi::Address peer = meet(end, group, rank);
  const Segment segment = Segment::of(end.buffer(plan.size));
  for (long i = 0; i < plan.count && rank == 0; ++i) end.receive(peer, kData, bmi::MessageClass::kBulk, {&segment, 1});
  group.barrier();
  const double begin = now();
  for (long i = 0; i < plan.count && rank == 1; ++i) end.send(peer, kData, bmi::MessageClass::kBulk, {&segment, 1});
  end.drain();
  const double seconds = now() - begin;
  group.barrier();
  return static_cast<double>(plan.count) * static_cast<double>(plan.size) / seconds;
}

/// Small round trips, alone or while rank 1 sends bulk data all the time. Yields the percentile plan.percent of their
/// times, in microseconds.
double priority(const plan& plan, Group& group, int rank) {
  End end(plan);
  const bmi::Address peer = meet(end, group, rank);
  const Segment out = Segment::of(end.buffer(plan.size));
  const Segment in = Segment::of(end.buffer(plan.size));
  const Segment bulk = Segment::of(end.buffer(std::size_t{1} << 20U));
  std::uint64_t moving = 0;
  const auto until = [&](const std::uint64_t& open) {
    for (bool first = true; first || open > 0; first = false) {
      while (moving < static_cast<std::uint64_t>(plan.load)) {
        if (rank == 1) end.send(peer, kData, bmi::MessageClass::kBulk, {&bulk, 1}, &moving);
        if (rank == 0) end.receive(peer, kData, bmi::MessageClass::kBulk, {&bulk, 1}, &moving);
      }
      end.step();
    }
  };
  std::vector<double> times;
  std::uint64_t asked = 0;
  for (long i = 0; i < plan.count; ++i) {
    const double begin = now();
    end.receive(peer, kAck, bmi::MessageClass::kControl, {&in, 1}, &asked);
    if (rank == 1) end.send(peer, kAck, bmi::MessageClass::kControl, {&out, 1});
    until(asked);
    if (rank == 0) end.send(peer, kAck, bmi::MessageClass::kControl, {&out, 1});
    times.push_back(now() - begin);
  }
  until(end.open());
  group.barrier();
  std::sort(times.begin(), times.end());
  return times[times.size() * static_cast<std::size_t>(plan.percent) / 100] * 1e6;
}

constexpr int kMessages = READ_PAIR_BYTES / READ_MESSAGE_BYTES;

void serve(const plan& plan, End& end, MutableByteView ack, MutableByteView data) {
  const Segment ack_segment = Segment::of(ack);
  std::array<bmi::UnexpectedMessage, 8> requests;
  for (int answered = 0; answered < plan.clients || end.open() > 0;) {
    const std::size_t n = answered < plan.clients ? end.answer_if_there(requests) : 0;
    for (std::size_t r = 0; r < n; ++r, ++answered) {
      end.send(requests[r].peer, kAck, bmi::MessageClass::kControl, {&ack_segment, 1});
      for (std::size_t i = 0; i < kMessages; ++i) {
        const Segment message = Segment::of(data.subspan(i * READ_MESSAGE_BYTES, READ_MESSAGE_BYTES));
        end.send(requests[r].peer, kData, bmi::MessageClass::kBulk, {&message, 1});
      }
    }
    if (n == 0) end.step();
  }
}

void read_all(End& end, std::span<const bmi::Address> servers, MutableByteView request, MutableByteView acks,
              MutableByteView data) {
  constexpr std::size_t kPiece = READ_MESSAGE_BYTES / READ_PIECES;
  for (std::size_t s = 0; s < servers.size(); ++s) {
    const Segment ack = Segment::of(acks.subspan(s * READ_ACK_BYTES, READ_ACK_BYTES));
    end.receive(servers[s], kAck, bmi::MessageClass::kControl, {&ack, 1});
    for (std::size_t i = 0; i < kMessages; ++i) {
      std::array<Segment, READ_PIECES> pieces;
      const std::size_t at = (s * kMessages + i) * 2 * READ_MESSAGE_BYTES;
      for (std::size_t p = 0; p < pieces.size(); ++p)
        pieces[p] = Segment::of(data.subspan(at + p * 2 * kPiece, kPiece));
      end.receive(servers[s], kData, bmi::MessageClass::kBulk, pieces);
    }
    const Segment asked = Segment::of(request);
    end.send_unexpected(servers[s], {&asked, 1});
  }
  end.drain();
}

/// Every client reads from every server, plan.rounds times. Yields the bytes per second of all clients together.
double parallel_read(const plan& plan, Group& group, int rank) {
  End end(plan);
  const bool server = rank < plan.servers;
  if (server) group.tell(rank, end.listen());
  group.barrier();
  std::vector<bmi::Address> servers;
  for (int s = 0; s < plan.servers && !server; ++s) servers.push_back(end.call(group.hear(s)));
  for (int c = 0; c < plan.clients && server; ++c) (void)end.answer();
  const MutableByteView request = end.buffer(READ_REQUEST_BYTES);
  const MutableByteView acks = end.buffer(READ_ACK_BYTES * static_cast<std::size_t>(plan.servers));
  const MutableByteView data =
      end.buffer(server ? std::size_t{READ_PAIR_BYTES}
                        : std::size_t{2} * READ_PAIR_BYTES * static_cast<std::size_t>(plan.servers));
  double seconds = 0;
  for (int round = 0; round <= plan.rounds; ++round) {
    group.barrier();
    const double begin = now();
    if (server) {
      serve(plan, end, acks.first(READ_ACK_BYTES), data);
    } else {
      read_all(end, servers, request, acks, data);
    }
    const double took = server ? 0 : now() - begin;
    group.tell(rank, fmt::format("{}", took));
    group.barrier();
    double slowest = 0;
    for (int r = plan.servers; r < plan.servers + plan.clients; ++r)
      slowest = std::max(slowest, std::stod(group.hear(r)));
    if (round > 0) seconds += slowest / plan.rounds;  // round 0 warms up
    group.barrier();
  }
  return static_cast<double>(plan.servers) * plan.clients * static_cast<double>(READ_PAIR_BYTES) / seconds;
}

}  // namespace
}  // namespace spate::bench

int main(int argc, char** argv) {
  using namespace spate::bench;
  struct plan plan{};
  if (plan_parse(&plan, argc, argv) == 0) {
    fmt::print(stderr,
               "usage: bmi_program [pattern=round_trip|stream|read|priority] [network=tcp|tcp+tls|shm|ofi+tcp|ofi+shm] "
               "[size=N] [count=N]\n"
               "         [servers=N] [clients=N] [poll=0|1] [allocated=0|1] [rounds=N] [load=N] [percent=N]\n");
    return 2;
  }
  const int size = plan.pattern == PATTERN_READ ? plan.servers + plan.clients : 2;
  const auto results = Group::run(size, [&](Group& group, int rank) {
    if (plan.pattern == PATTERN_READ) return parallel_read(plan, group, rank);
    if (plan.pattern == PATTERN_PRIORITY) return priority(plan, group, rank);
    return plan.pattern == PATTERN_STREAM ? stream(plan, group, rank) : round_trip(plan, group, rank);
  });
  fmt::print("{:.6g}\n",
             plan.pattern == PATTERN_ROUND_TRIP || plan.pattern == PATTERN_PRIORITY ? results[1] : results[0]);
  return 0;
}
