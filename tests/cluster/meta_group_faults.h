// SPDX-License-Identifier: Apache-2.0
// MetaGroupFaults: what befalls several meta servers, at times that the seed chooses.
#pragma once

#include <functional>
#include <set>

#include "tests/cluster/scene.h"
#include "tests/cluster/world.h"

namespace spate::cluster {

/// One a run. Only one machine at a time loses what it had not synced, and only while all others hold everything: more
/// than that a group need not survive.
class MetaGroupFaults {
 public:
  /// `reader`: the node of the client that still reaches a server which is cut off from everybody else.
  MetaGroupFaults(World& world, Random& random, Journal& journal, std::uint32_t reader);

  void strike();
  /// A client has just been answered.
  void answered();
  /// Everything works again from here on.
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
  std::optional<Duration> kills_next_;  // when the next client is answered, the server that leads dies for so long
  MonoTime crashed_at_;
};

}  // namespace spate::cluster
