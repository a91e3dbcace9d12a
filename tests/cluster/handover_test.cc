// SPDX-License-Identifier: Apache-2.0
// The process of a mount is killed again and again while programs use names. The kernel repeats its unanswered requests
// to the next process. Each call must take effect once.
#include <fmt/format.h>
#include <sys/mman.h>

#include "base/expect.h"
#include "client/session/handover_state.h"
#include "tests/cluster/calls.h"
#include "tests/cluster/memory_copy.h"

namespace spate::cluster {
namespace {

using bmi::sim::Death;
using client::path_from_root;

constexpr std::size_t kPrograms = 4;
constexpr int kCalls = 300;  // in all programs together

/// The nth call of a program, which makes and removes the same names in turn. A call that is carried out twice fails
/// the second time.
job::Task<Errc> nth_call(client::Client& client, std::string directory, std::uint64_t n) {
  const std::string old_name = directory + "/a";
  const std::string new_name = directory + "/c";
  switch (n % 5) {
    case 0: {
      const auto made = co_await client.mkdir(path_from_root(directory), {});
      co_return made.code();
    }
    case 1: {
      wire::CreateRequest create;
      create.where = path_from_root(old_name);
      create.open_flags = wire::kOpenExclusive;
      const auto made = co_await client.make_node(std::move(create));
      co_return made.code();
    }
    case 2: {
      const auto renamed = co_await client.rename(path_from_root(old_name), path_from_root(new_name), 0);
      co_return renamed.code();
    }
    case 3: {
      const auto removed = co_await client.unlink(path_from_root(new_name));
      co_return removed.code();
    }
    default: {
      const auto removed = co_await client.rmdir(path_from_root(directory));
      co_return removed.code();
    }
  }
}

/// A mount with its kernel, and programs that make one call after another.
class MountedPrograms {
 public:
  MountedPrograms(std::uint64_t seed, Plant plant)
      : random_(seed),
        keeps_attributes_(seed % 2 == 0),
        memory_(::memfd_create("handover", MFD_CLOEXEC)),
        world_(options(seed, plant)) {
    start_process();
  }

  /// Runs until kCalls are answered. Returns the first failure; empty: none.
  std::string run() {
    while (answered_ < kCalls && failure_.empty()) {
      for (std::size_t i = 0; i < kPrograms; ++i) look_at(i);
      if (random_.chance(1, 500)) kill();
      world_.turn(world_.now() + std::chrono::seconds(1));
    }
    return failure_;
  }
  int kills() const { return kills_; }

 private:
  struct Program {
    std::uint64_t calls = 0;  // number of completed calls
    std::uint64_t request_id = 0;
    Outcome<Errc> outcome;
  };

  static WorldOptions options(std::uint64_t seed, Plant plant) {
    WorldOptions options;
    options.seed = seed;
    options.plant = plant;
    return options;
  }

  void start_process() {
    states_.push_back(*client::HandoverState::open(memory_.get()));
    client::Options options = small_client_options({}, {}, {});
    options.handover = states_.back().get();
    options.keep_attributes = keeps_attributes_;
    process_ = &world_.start_client(std::move(options));
    process_->client().session().resume();
  }

  void kill() {
    ++kills_;
    memory_ = memory_copy(memory_.get());
    world_.kill_client(*process_, Death::kProcess);
    start_process();
    for (std::size_t i = 0; i < kPrograms; ++i) {
      if (programs_[i].outcome != nullptr) send(i);  // the kernel repeats the request
    }
  }

  void send(std::size_t i) {
    Program& program = programs_[i];
    program.outcome = begin_call(*process_, serve(*process_, *states_.back(), i, program));
  }

  /// Serves a call as a worker of the mount does. The kernel gets the answer a moment after the server's reply.
  job::Task<Errc> serve(ClientProcess& process, client::HandoverState& state, std::size_t i, Program call) {
    process.client().session().next_request_id(call.request_id);
    const Errc done = co_await nth_call(process.client(), fmt::format("d{}", i), call.calls);
    std::ignore = co_await process.executor().sleep(std::chrono::microseconds(random_.below(300)));
    state.call_answered(call.request_id);
    co_return done;
  }

  void look_at(std::size_t i) {
    Program& program = programs_[i];
    if (program.outcome != nullptr && !program.outcome->has_value()) return;
    if (program.outcome != nullptr) {
      const Errc code = **program.outcome;
      if (code != Errc::kOk) failure_ = fmt::format("call {} of program {}: {}", program.calls, i, name(code));
      ++program.calls;
      ++answered_;
    }
    program.request_id = next_request_id_ += 2;
    send(i);
  }

  SeededRandom random_;
  const bool keeps_attributes_;
  UniqueFd memory_;
  std::vector<std::unique_ptr<client::HandoverState>> states_;  // also of dead processes
  World world_;
  ClientProcess* process_ = nullptr;
  std::array<Program, kPrograms> programs_;
  std::uint64_t next_request_id_ = 0;
  int answered_ = 0;
  int kills_ = 0;
  std::string failure_;
};

TEST(HandoverTest, ACallThatIsRepeatedToTheNextProcessHasTheEffectOfOne) {
  int kills = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    MountedPrograms programs(seed, Plant::kNone);
    ASSERT_EQ(programs.run(), "") << "seed " << seed;
    kills += programs.kills();
  }
  EXPECT_GT(kills, 200);
}

TEST(HandoverTest, ASlotThatIsUsedAgainTooEarlyIsFound) {
  std::uint64_t seed = 1;
  while (seed <= 40 && MountedPrograms(seed, Plant::kEarlySlot).run().empty()) ++seed;
  EXPECT_LE(seed, 40U) << "the plant is not found";
}

}  // namespace
}  // namespace spate::cluster
