// SPDX-License-Identifier: Apache-2.0
// MirrorWorld: a simulated cluster whose files have their data on two io servers.
#pragma once

#include <map>
#include <set>
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
  /// The datafiles with these handles may be left on servers that have lost power and are no members any more: what
  /// such a server had listed may be gone, while the datafile itself is not.
  void allow_leftovers(std::uint64_t handle, Layout layout) { layouts_.insert_or_assign(handle, std::move(layout)); }

  void kill(ServerId server, bmi::sim::Death death = bmi::sim::Death::kProcess) {
    if (death == bmi::sim::Death::kMachine) without_power_.insert(server);
    world.kill_server(server, death);
  }
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
  bool is_leftover(const DatafileId& datafile, ServerId server);

  WorldOptions options_;
  std::map<std::uint64_t, Layout> layouts_;
  std::set<ServerId> without_power_;

 public:
  World world;
};

}  // namespace spate::cluster
