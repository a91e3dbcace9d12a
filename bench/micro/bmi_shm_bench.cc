// SPDX-License-Identifier: Apache-2.0
// Compares bmi over shared memory with bare rings and bare wakes. Both take turns in the same run: round trips with
// sleeping and with polling, and streams of large messages from mem_alloc memory and from other memory. Prints a table.
// See docs/wire-shm.md.
#include <fmt/core.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "bmi/network.h"
#include "bmi/shm/shm_module.h"

namespace spate::bmi {
namespace {

constexpr int kRounds = 20'000;
constexpr std::uint64_t kStreamBytes = std::uint64_t{1} << 30U;
constexpr int kRepetitions = 5;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

double median(const std::function<double()>& measure) {
  std::vector<double> all;
  for (int i = 0; i < kRepetitions; ++i) all.push_back(measure());
  std::ranges::sort(all);
  return all[all.size() / 2];
}

// --- bare ---

struct alignas(64) Flag {
  std::atomic<std::uint64_t> value{0};
};

double bare_spin() {
  Flag ping;
  Flag pong;
  std::thread other([&] {
    pin(1);
    for (std::uint64_t i = 1; i <= kRounds; ++i) {
      while (ping.value.load(std::memory_order_acquire) != i) {
      }
      pong.value.store(i, std::memory_order_release);
    }
  });
  const double begin = now();
  for (std::uint64_t i = 1; i <= kRounds; ++i) {
    ping.value.store(i, std::memory_order_release);
    while (pong.value.load(std::memory_order_acquire) != i) {
    }
  }
  const double seconds = now() - begin;
  other.join();
  return seconds / kRounds * 1e6;
}

double bare_eventfd() {
  const UniqueFd ping(::eventfd(0, 0));
  const UniqueFd pong(::eventfd(0, 0));
  const auto ring = [](int fd) {
    const std::uint64_t one = 1;
    SPATE_CHECK(::write(fd, &one, sizeof one) == sizeof one);
  };
  const auto wait = [](int fd) {
    std::uint64_t count = 0;
    SPATE_CHECK(::read(fd, &count, sizeof count) == sizeof count);
  };
  std::thread other([&] {
    pin(1);
    for (int i = 0; i < kRounds; ++i) {
      wait(ping.get());
      ring(pong.get());
    }
  });
  const double begin = now();
  for (int i = 0; i < kRounds; ++i) {
    ring(ping.get());
    wait(pong.get());
  }
  const double seconds = now() - begin;
  other.join();
  return seconds / kRounds * 1e6;
}

/// Copies through a ring of 512 KiB, in and out, 32 KiB at a time. Yields GB/s.
double bare_ring(std::uint64_t size) {
  constexpr std::uint64_t kChunk = 32 * 1024;
  constexpr std::uint64_t kRing = 512 * 1024;
  std::vector<std::byte> ring(kRing);
  Flag written;
  Flag taken;
  std::thread writer([&] {
    pin(1);
    const std::vector<std::byte> data(size, std::byte{1});
    for (std::uint64_t at = 0; at < kStreamBytes; at += kChunk) {
      while (at - taken.value.load(std::memory_order_acquire) > kRing - kChunk) {
      }
      std::memcpy(&ring[at % kRing], &data[at % size], kChunk);
      written.value.store(at + kChunk, std::memory_order_release);
    }
  });
  std::vector<std::byte> room(size);
  const double begin = now();
  for (std::uint64_t at = 0; at < kStreamBytes; at += kChunk) {
    while (written.value.load(std::memory_order_acquire) <= at) {
    }
    std::memcpy(&room[at % size], &ring[at % kRing], kChunk);
    taken.value.store(at + kChunk, std::memory_order_release);
  }
  const double seconds = now() - begin;
  writer.join();
  return static_cast<double>(kStreamBytes) / seconds / 1e9;
}

// --- bmi ---

class Side {
 public:
  Side() {
    std::vector<std::unique_ptr<Module>> modules;
    modules.push_back(shm::make_shm_module(clock_));
    network = make_network(std::move(modules));
    context = network->open_context();
  }
  std::size_t completions(std::span<Completion> out, bool spin) {
    for (;;) {
      const std::size_t n = network->test_context(context, out);
      if (n > 0) return n;
      sleep(spin);
    }
  }
  void sleep(bool spin) {
    if (spin || !network->prepare_to_wait(context)) return;
    pollfd ready{network->wait_descriptor(context), POLLIN, 0};
    ::poll(&ready, 1, -1);
  }
  std::unique_ptr<Network> network;
  ContextId context;

 private:
  SystemClock clock_;
};

/// A client and a server that are connected.
struct Pair {
  Side client;
  Side server;
  Address to_server;
  Address to_client;

  Pair() {
    const std::string url = server.network->listen("shm://*", server.context).value();
    to_server = client.network->lookup(std::array{url}).value();
    Message hello;
    hello.peer = to_server;
    SPATE_CHECK(client.network->post_send_unexpected(hello, client.context, nullptr).has_value());
    std::array<UnexpectedMessage, 1> first;
    std::array<Completion, 4> done;
    while (server.network->test_unexpected(server.context, first) == 0)
      (void)client.network->test_context(client.context, done);
    to_client = first[0].peer;
    while (!client.network->peer_info(to_server).connected) (void)client.network->test_context(client.context, done);
    (void)client.network->test_context(client.context, done);
  }
};

Message message_of(Address peer, std::uint64_t tag, const Segment& segment, MessageClass c) {
  Message m;
  m.peer = peer;
  m.tag = Tag(tag);
  m.message_class = c;
  m.segments = SegmentList(&segment, 1);
  return m;
}

double bmi_round_trip(std::size_t size, bool spin) {
  Pair pair;
  const auto play = [&](Side& side, Address peer, bool begins) {
    std::vector<std::byte> out(size);
    std::vector<std::byte> in(size);
    const Segment from = Segment::of(MutableByteView(out));
    const Segment to = Segment::of(MutableByteView(in));
    const Message send = message_of(peer, 1, from, MessageClass::kControl);
    const Message receive = message_of(peer, 1, to, MessageClass::kControl);
    std::array<Completion, 4> done;
    for (int i = 0; i < kRounds; ++i) {
      const bool there = side.network->post_recv(receive, side.context, nullptr).value().done;
      if (begins) SPATE_CHECK(side.network->post_send(send, side.context, nullptr).value().done);
      if (!there) SPATE_CHECK(side.completions(done, spin) == 1);
      if (!begins) SPATE_CHECK(side.network->post_send(send, side.context, nullptr).value().done);
    }
  };
  std::thread other([&] {
    pin(1);
    play(pair.server, pair.to_client, false);
  });
  const double begin = now();
  play(pair.client, pair.to_server, true);
  const double seconds = now() - begin;
  other.join();
  return seconds / kRounds * 1e6;
}

double bmi_stream(std::uint64_t size, bool arena, bool spin) {
  Pair pair;
  const std::uint64_t messages = kStreamBytes / size;
  std::thread sender([&] {
    pin(1);
    Side& side = pair.client;
    std::vector<std::byte> plain(arena ? 0 : size, std::byte{1});
    const MutableByteView memory = arena ? side.network->mem_alloc(size) : MutableByteView(plain);
    std::memset(memory.data(), 1, memory.size());
    const Segment segment = Segment::of(memory);
    const Message send = message_of(pair.to_server, 1, segment, MessageClass::kBulk);
    std::array<Completion, 8> done;
    std::uint64_t in_flight = 0;
    for (std::uint64_t posted = 0; posted < messages || in_flight > 0;) {
      while (posted < messages && in_flight < 8) {
        ++posted;
        if (!side.network->post_send(send, side.context, nullptr).value().done) ++in_flight;
      }
      if (in_flight > 0) in_flight -= side.completions(done, spin);
    }
    if (arena) side.network->mem_free(memory);
  });
  std::vector<std::byte> room(size);
  const Segment segment = Segment::of(MutableByteView(room));
  const Message receive = message_of(pair.to_client, 1, segment, MessageClass::kBulk);
  std::array<Completion, 8> done;
  const double begin = now();
  std::uint64_t in_flight = 0;
  for (std::uint64_t posted = 0; posted < messages || in_flight > 0;) {
    while (posted < messages && in_flight < 8) {
      ++posted;
      if (!pair.server.network->post_recv(receive, pair.server.context, nullptr).value().done) ++in_flight;
    }
    if (in_flight > 0) in_flight -= pair.server.completions(done, spin);
  }
  const double seconds = now() - begin;
  sender.join();
  return static_cast<double>(kStreamBytes) / seconds / 1e9;
}

void run() {
  pin(0);
  fmt::print("round trip, us (median of {})\n", kRepetitions);
  fmt::print("  polling: bare line        {:8.2f}\n", median(bare_spin));
  for (const std::size_t size : {std::size_t{24}, std::size_t{64}, std::size_t{1200}}) {
    fmt::print("  polling: bmi {:5} B      {:8.2f}\n", size, median([&] { return bmi_round_trip(size, true); }));
  }
  fmt::print("  asleep:  bare eventfd     {:8.2f}\n", median(bare_eventfd));
  fmt::print("  asleep:  bmi    24 B      {:8.2f}\n", median([] { return bmi_round_trip(24, false); }));
  fmt::print("streams, GB/s: bare ring, any memory polling, asleep, mem_alloc polling, asleep\n");
  for (const std::uint64_t size : {std::uint64_t{64} << 10U, std::uint64_t{256} << 10U, std::uint64_t{1} << 20U}) {
    fmt::print(
        "  {:5} KiB {:8.2f} {:8.2f} {:8.2f} {:8.2f} {:8.2f}\n", size >> 10U, median([&] { return bare_ring(size); }),
        median([&] { return bmi_stream(size, false, true); }), median([&] { return bmi_stream(size, false, false); }),
        median([&] { return bmi_stream(size, true, true); }), median([&] { return bmi_stream(size, true, false); }));
  }
}

}  // namespace
}  // namespace spate::bmi

int main() {
  spate::bmi::run();
  return 0;
}
