// SPDX-License-Identifier: Apache-2.0
// For tests: the meta server dies at its n-th step, for every n.
#pragma once

#include "server/meta/testing/audit_test.h"

namespace spate::meta {

/// A meta server whose steps are counted: each commit and each call to the io servers before and after its effect, and
/// each sync. At the chosen step it dies: nothing that it does afterwards has an effect.
class CrashWorld : public RoleTest {
 public:
  CrashWorld() = default;
  ~CrashWorld() override { let_go(); }
  void TestBody() override {}

  void arm(std::size_t step) {
    left_ = step;
    dead_ = false;
    store.on_commit = store.after_commit = store.on_sync = [this] { return count() ? Errc::kIoError : Errc::kOk; };
    io.fail = io.lose_reply = [this](std::string_view) { return count() ? Errc::kUnreachable : Errc::kOk; };
  }
  bool dead() const { return dead_; }
  /// Starts a new process on the state that the old one left. `machine`: only synced commits and `kept` more survive.
  void start_again(bool machine = false, std::size_t kept = 0) {
    close();
    let_go();
    if (machine) store.crash_machine(kept);
    open();
  }

 private:
  bool count() {
    if (!dead_ && left_-- == 0) dead_ = true;
    return dead_;
  }
  void let_go() {
    store.on_commit = store.after_commit = store.on_sync = {};
    io.fail = io.lose_reply = {};
  }

  std::size_t left_ = 0;
  bool dead_ = false;
};

/// Lets the server die at each step of `act` in turn. Afterwards `check` runs with a new server. Returns the number of
/// steps. `setup`, `act`, `check`: void(CrashWorld&). `machine`: unsynced changes are lost, too.
template <typename Setup, typename Act, typename Check>
std::size_t die_at_each_step(bool machine, Setup setup, Act act, Check check) {
  constexpr std::size_t kMost = 200;
  for (std::size_t step = 0; step < kMost; ++step) {
    SCOPED_TRACE("step " + std::to_string(step) + (machine ? " of a machine" : " of a process"));
    CrashWorld world;
    setup(world);
    world.arm(step);
    act(world);
    if (!world.dead()) return step;
    world.start_again(machine);
    Audit(world).check();
    check(world);
    if (::testing::Test::HasFailure()) return step;
  }
  ADD_FAILURE() << "it never came through";
  return kMost;
}

}  // namespace spate::meta
