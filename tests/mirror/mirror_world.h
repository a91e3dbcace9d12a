// SPDX-License-Identifier: Apache-2.0
// MirrorWorld: a simulated cluster whose files have their data on two io servers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/data_group.h"
#include "tests/cluster/calls.h"

namespace spate::cluster {

inline constexpr auto kMirrorOpen = static_cast<std::uint8_t>(wire::kOpenRead | wire::kOpenWrite);

WorldOptions mirror_options(std::uint64_t seed = 1);

/// A World whose files are mirrored, with questions about the groups. The functions that wait turn the world, so
/// virtual time passes and processes may end in them. One thread.
class MirrorWorld {
 public:
  explicit MirrorWorld(const WorldOptions& options = mirror_options()) : options_(options), world(options) {}
  MirrorWorld(const MirrorWorld&) = delete;
  MirrorWorld& operator=(const MirrorWorld&) = delete;

  /// The records of all groups.
  std::map<TargetId, DataGroup> groups();
  DataGroup group_of(const client::File& file, std::size_t slot = 0) {
    return groups().at(file.layout().slots[slot].targets.front());
  }
  /// The server of the primary, and the server of another member.
  ServerId primary_of(const client::File& file);
  ServerId backup_of(const client::File& file);
  bool is_whole();
  /// Lets time pass until all members of all groups serve. False: they do not serve after `at_most`.
  bool become_whole(Duration at_most = std::chrono::seconds(60));
  /// Lets a second pass, so that nothing is in flight, and compares the copies of each datafile. There must be
  /// `replicas` equal copies. Returns what is wrong; empty: nothing.
  std::string differences();
  void kill(ServerId server, bmi::sim::Death death = bmi::sim::Death::kProcess) { world.kill_server(server, death); }
  /// It ends as a server does that is told to: others lead its groups first.
  void end_in_order(ServerId server);
  void end_in_order(const std::vector<ServerId>& servers);
  void restart(ServerId server) { world.start_server(server); }
  /// Restarts the server with empty disks.
  void restart_empty(ServerId server) {
    world.replace_disks(server, options_);
    world.start_server(server);
  }
  void cut(ServerId a, ServerId b, bool on) { world.fabric().links().partition(a.value, b.value, on); }

 private:
  WorldOptions options_;

 public:
  World world;
};

}  // namespace spate::cluster
