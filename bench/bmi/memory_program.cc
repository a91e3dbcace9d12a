// SPDX-License-Identifier: Apache-2.0
// Measures the limits of shared memory between two processes: a round trip of a message, with flags to poll or eventfds
// to sleep on; and a stream that is copied into a ring and out of it, with nothing else. Prints one number.
#include <fmt/core.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <vector>

#include "base/check.h"
#include "base/unique_fd.h"
#include "bmi/group.h"
#include "bmi/plan.h"

namespace spate::bench {
namespace {

constexpr std::uint64_t kRing = 512 * 1024;
constexpr std::uint64_t kChunk = 32 * 1024;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct alignas(64) Flag {
  std::atomic<std::uint64_t> value{0};
};

/// The memory that both processes share. It is mapped before they are forked.
struct Memory {
  std::array<Flag, 2> flags;  // by rank: messages sent (round trips), or bytes written and taken (streams)
  alignas(64) std::array<std::array<std::byte, kChunk>, 2> messages;  // by rank
  alignas(64) std::array<std::byte, kRing> ring;
};

class Probe {
 public:
  Probe() : memory_(*new(map()) Memory) {
    for (UniqueFd& bell : bells_) {
      bell.reset(::eventfd(0, 0));
      SPATE_CHECK(bell);
    }
  }

  double round_trip(const plan& plan, Group& group, int rank) {
    SPATE_CHECK(plan.size <= kChunk);
    const auto me = static_cast<std::size_t>(rank);
    std::vector<std::byte> data(plan.size);
    struct batches batches{};
    group.barrier();
    std::uint64_t turn = 0;
    for (long i = -plan.count / 10; i <= plan.count; ++i) {
      if (i == batches.next) batches_note(&batches, &plan, now());
      ++turn;
      if (rank == 1) say(me, turn, data, plan.poll != 0);
      hear(1 - me, turn, data, plan.poll != 0);
      if (rank == 0) say(me, turn, data, plan.poll != 0);
    }
    group.barrier();
    return batches_median(&batches, &plan);
  }

  double stream(const plan& plan, Group& group, int rank) {
    const std::uint64_t chunk = std::min<std::uint64_t>(plan.size, kChunk);
    SPATE_CHECK(kRing % chunk == 0);
    const std::uint64_t all = static_cast<std::uint64_t>(plan.count) * plan.size / chunk * chunk;
    std::vector<std::byte> data(plan.size, std::byte{1});
    auto& written = memory_.flags[1].value;
    auto& taken = memory_.flags[0].value;
    group.barrier();
    const double begin = now();
    for (std::uint64_t at = 0; at < all; at += chunk) {
      if (rank == 1) {
        while (at - taken.load(std::memory_order_acquire) > kRing - chunk) {
        }
        std::memcpy(&memory_.ring[at % kRing], &data[at % plan.size], chunk);
        written.store(at + chunk, std::memory_order_release);
      } else {
        while (written.load(std::memory_order_acquire) <= at) {
        }
        std::memcpy(&data[at % plan.size], &memory_.ring[at % kRing], chunk);
        taken.store(at + chunk, std::memory_order_release);
      }
    }
    const double seconds = now() - begin;
    group.barrier();
    return static_cast<double>(all) / seconds;
  }

 private:
  static void* map() {
    void* const at = ::mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    SPATE_CHECK(at != MAP_FAILED);
    return at;
  }
  void say(std::size_t from, std::uint64_t turn, const std::vector<std::byte>& data, bool poll) {
    std::memcpy(memory_.messages[from].data(), data.data(), data.size());
    memory_.flags[from].value.store(turn, std::memory_order_release);
    const std::uint64_t one = 1;
    SPATE_CHECK(poll || ::write(bells_[from].get(), &one, sizeof one) == sizeof one);
  }
  void hear(std::size_t from, std::uint64_t turn, std::vector<std::byte>& data, bool poll) {
    std::uint64_t count = 0;
    SPATE_CHECK(poll || ::read(bells_[from].get(), &count, sizeof count) == sizeof count);
    while (memory_.flags[from].value.load(std::memory_order_acquire) != turn) {
    }
    std::memcpy(data.data(), memory_.messages[from].data(), data.size());
  }

  Memory& memory_;  // never unmapped
  std::array<UniqueFd, 2> bells_;
};

}  // namespace
}  // namespace spate::bench

int main(int argc, char** argv) {
  using namespace spate::bench;
  struct plan plan{};
  const bool good =
      plan_parse(&plan, argc, argv) != 0 && (plan.pattern == PATTERN_ROUND_TRIP || plan.pattern == PATTERN_STREAM);
  if (!good) {
    fmt::print(stderr,
               "usage: memory_program [pattern=round_trip|stream] [size=N, a power of two for streams] [count=N] "
               "[poll=0|1]\n");
    return 2;
  }
  Probe probe;
  const auto results = Group::run(2, [&](Group& group, int rank) {
    return plan.pattern == PATTERN_STREAM ? probe.stream(plan, group, rank) : probe.round_trip(plan, group, rank);
  });
  fmt::print("{:.6g}\n", plan.pattern == PATTERN_ROUND_TRIP ? results[1] : results[0]);
  return 0;
}
