// SPDX-License-Identifier: Apache-2.0
// How long clients wait, in virtual time, when another meta server takes the lead: the times that docs/availability.md
// promises.
#include <algorithm>
#include <array>
#include <functional>
#include <string>

#include "base/expect.h"
#include "tests/cluster/calls.h"

namespace spate::cluster {
namespace {

using bmi::sim::Death;
using namespace std::chrono_literals;

constexpr std::uint64_t kPauseSeeds = 6;
constexpr Duration kLongestCall = 4s;
constexpr Duration kLongestOfHandOver = 300ms;

WorldOptions pause_options(std::uint64_t seed) {
  WorldOptions options;
  options.seed = seed;
  options.meta_servers = 3;
  options.io_servers = 1;
  options.session_lease = 60s;
  return options;
}

job::Task<Errc> make_directory(client::Client& client, std::string path) {
  const auto made = co_await client.mkdir(client::path_from_root(path), {});
  co_return made.code();
}

/// Three meta servers, and programs that make one directory after another. They know how long their longest call took.
class PauseScene {
 public:
  explicit PauseScene(std::uint64_t seed) : world(pause_options(seed)) {
    for (Program& program : programs_) program.process = &world.start_client();
    EXPECT_TRUE(until([this] { return world.is_whole(); }, 30s)) << "the group does not become whole";
    run_for(2s);
    longest_ = Duration(0);
  }

  void run_for(Duration span) {
    const MonoTime end = world.now() + span;
    until([this, end] { return world.now() >= end; }, span);
  }
  /// Lets the programs go on until each has ended its present call.
  Duration longest_call() {
    ending_ = true;
    const auto idle = [](const Program& program) { return program.outcome == nullptr; };
    EXPECT_TRUE(until([&] { return std::ranges::all_of(programs_, idle); }, 60s)) << "a call is never answered";
    return longest_;
  }
  /// Cuts the server off from everybody, and from the coordinator.
  void isolate(ServerId server) {
    for (std::uint32_t node = 1; node < 200; ++node) {
      if (node != server.value) world.fabric().links().partition(server.value, node, true);
    }
    world.coordination().faults.cut_off.insert(server.value);
  }

  World world;

 private:
  struct Program {
    ClientProcess* process = nullptr;
    Outcome<Errc> outcome;  // null: no call is in flight
    MonoTime begun;
    MonoTime goes_on;
    std::uint64_t calls = 0;
  };

  bool until(const std::function<bool()>& condition, Duration at_most) {
    const MonoTime limit = world.now() + at_most;
    while (!condition() && world.now() < limit) {
      for (std::size_t i = 0; i < programs_.size(); ++i) look_at(i);
      std::ignore = world.turn(std::min(limit, world.now() + 10ms));
    }
    return condition();
  }
  void look_at(std::size_t i) {
    Program& program = programs_.at(i);
    if (program.outcome != nullptr && program.outcome->has_value()) {
      EXPECT_EQ(**program.outcome, Errc::kOk);
      longest_ = std::max(longest_, world.now() - program.begun);
      program.outcome = nullptr;
      program.goes_on = world.now() + 20ms;
    }
    if (program.outcome != nullptr || ending_ || world.now() < program.goes_on) return;
    program.begun = world.now();
    std::string path = "d" + std::to_string(i) + "." + std::to_string(program.calls++);
    program.outcome = begin_call(*program.process, make_directory(program.process->client(), std::move(path)));
  }

  std::array<Program, 3> programs_;
  Duration longest_{};
  bool ending_ = false;
};

struct LostLeader {
  const char* name;
  std::function<void(PauseScene&, ServerId)> happen;
  Duration at_most = kLongestCall;
};

class MetaPauseTest : public ::testing::TestWithParam<LostLeader> {};

TEST_P(MetaPauseTest, ClientsWaitNoLongerThanPromised) {
  for (std::uint64_t seed = 1; seed <= kPauseSeeds; ++seed) {
    PauseScene scene(seed);
    scene.run_for(std::chrono::milliseconds(seed * 97));
    const ServerId first = scene.world.leader();
    GetParam().happen(scene, first);
    scene.run_for(8s);
    EXPECT_NE(scene.world.leader(), first) << "no other server leads, seed " << seed;
    const Duration longest = scene.longest_call();
    EXPECT_LE(longest, GetParam().at_most) << "seed " << seed;
    EXPECT_GT(longest, Duration(0)) << "no call was made, seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, MetaPauseTest,
    ::testing::Values(LostLeader{"Killed", [](PauseScene& scene,
                                              ServerId first) { scene.world.kill_server(first, Death::kProcess); }},
                      LostLeader{"Crashed", [](PauseScene& scene,
                                               ServerId first) { scene.world.kill_server(first, Death::kMachine); }},
                      LostLeader{"Paused", [](PauseScene& scene, ServerId first) { scene.world.pause(first, true); }},
                      LostLeader{"CutOff", [](PauseScene& scene, ServerId first) { scene.isolate(first); }},
                      // The world starts it again at once when it has ended.
                      LostLeader{"EndedInOrder",
                                 [](PauseScene& scene, ServerId first) { scene.world.server(first)->end_in_order(); },
                                 kLongestOfHandOver}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace spate::cluster
