// SPDX-License-Identifier: Apache-2.0
// MetaGroupFaults: faults of a group of meta servers, at times that the seed chooses.
#pragma once

#include <functional>
#include <set>

#include "tests/cluster/scene.h"
#include "tests/cluster/world.h"

namespace spate::cluster {

/// One for each run. Only one machine at a time loses unsynced changes, and only while all others hold everything: a
/// group need not survive more than that.
class MetaGroupFaults {
 public:
  /// `reader`: the node of the client that can still reach a server which is cut off from all others.
  MetaGroupFaults(World& world, Random& random, Journal& journal, std::uint32_t reader);

  void strike();
  /// Call it when a client has just been answered.
  void answered();
  /// Mends all faults.
  void mend_all();

 private:
  void stop_server(ServerId server, bmi::sim::Death death, Duration span);
  void pause(ServerId server, Duration span);
  void isolate(ServerId server, Duration span);
  void cut(ServerId from, ServerId to, Duration span);
  void disturb_coordinator(Duration span);
  void hurt_disk(ServerId server, Duration span);
  void mend_after(Duration span, UniqueFunction<void()> mend);
  ServerId any_server();
  bool quiet();

  World& world_;
  Random& random_;
  Journal& journal_;
  const std::uint32_t reader_;
  std::set<ServerId> down_;
  std::uint32_t in_force_ = 0;
  std::optional<Duration> kills_next_;  // if set: after the next answer the leader is killed for this time
  MonoTime crashed_at_;
};

}  // namespace spate::cluster
