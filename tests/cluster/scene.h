// SPDX-License-Identifier: Apache-2.0
// Scene: the state that all parts of a simulation share: the world, the models of correct behaviour, the journal.
#pragma once

#include <deque>
#include <set>
#include <string>
#include <string_view>

#include "tests/cluster/append_model.h"
#include "tests/cluster/data_model.h"
#include "tests/cluster/history.h"
#include "tests/cluster/lock_model.h"
#include "tests/cluster/world.h"

namespace spate::cluster {

/// A log of all events: a digest over all lines, and the last lines, for people who examine a failure.
class Journal {
 public:
  Journal(const World& world, bool print) : world_(world), print_(print) {}
  void note(std::string_view line);
  std::uint64_t digest() const { return digest_; }
  const std::deque<std::string>& last_lines() const { return lines_; }

 private:
  static constexpr std::size_t kKept = 60;
  const World& world_;
  const bool print_;
  std::uint64_t digest_ = 0;
  std::deque<std::string> lines_;
};

/// When the cluster was last disturbed. Only around that time may a request fail for a transient reason.
class Disturbances {
 public:
  void begin() { ++in_force_; }
  void end(MonoTime now) {
    --in_force_;
    last_ = now;
  }
  void at(MonoTime now) { last_ = now; }
  bool quiet_since(MonoTime when) const { return in_force_ == 0 && last_ < when; }
  bool in_force() const { return in_force_ > 0; }

 private:
  int in_force_ = 0;
  MonoTime last_{Duration(-1)};
};

struct Scene {
  Scene(const WorldOptions& options, bool print, LockModel::StillHeld still_held)
      : disk_bytes(options.disk_bytes),
        usual_link(options.fabric.link),
        journal(world, print),
        targets(names),
        history(names, targets),
        locks(std::move(still_held)),
        world(options) {}

  const std::uint64_t disk_bytes;  // of each disk without a fault
  const bmi::sim::LinkOptions usual_link;

  Journal journal;
  NameTable names;
  Targets targets;
  History history;
  DataModel data;
  AppendModel appends;
  std::set<std::uint64_t> scratch;  // files that only receive copies
  LockModel locks;
  Disturbances disturbances;
  /// Whether an io server has died since the beginning.
  bool io_server_died = false;
  /// Whether an io server has died or write-back has failed. Only then may an fsync report a lost write.
  bool writes_may_be_lost();
  /// Whether a meta server has served. Before, a crash of its machine may leave nothing, not even a root.
  bool made = false;
  /// Whether the meta server's machine has crashed. Then opens may have been forgotten.
  bool opens_lost = false;
  MonoTime meta_crashed_at{Duration(-1)};
  /// Files that a crash may have removed, but that clients learnt of afterwards, by answers from before the crash.
  std::set<std::uint64_t> perhaps_forgotten;
  std::uint64_t operations_left = 0;
  /// How often the pages that an open kept were compared with the file.
  std::uint64_t pages_kept = 0;
  /// The time that clients pause between operations. It is long during faults, so that clients still work at their end.
  Duration pause() const;
  /// A write of a killed client that may still take effect. Until then others write to the same place.
  struct LateWrite {
    std::uint64_t handle = 0;
    std::vector<Extent> extents;
    MonoTime until;
  };
  std::optional<LateWrite> late;
  /// The number of writes under a lock that failed and may still take effect.
  std::uint64_t guard_doubts = 0;
  /// A lock's holder is cut off. Until this time other clients should request the lock.
  MonoTime guard_wanted_until;
  /// Write-back is about to fail. All clients write one file, each to a place of its own, and then all of them sync it.
  struct SharedLoss {
    ServerId server;
    std::uint64_t handle = 0;  // the first client chooses it; 0: none yet
    MonoTime written;
    MonoTime synced;
  };
  SharedLoss shared_loss;
  /// Until this time others should begin truncations that remove nothing, for which the lock's holder then waits.
  MonoTime growth_wanted_until;
  std::uint64_t growths = 0;  // begun truncations of that kind
  /// Cuts the two nodes off from each other for a while.
  void part(std::uint32_t a, std::uint32_t b, Duration span);
  /// Makes the disks of this io server refuse truncations for a while.
  void refuse_cuts(ServerId server, Duration span);
  /// Kills the meta server's process and restarts it at once. The fault driver sets this function.
  UniqueFunction<void()> restart_meta;
  std::string failure;  // the first one
  World world;          // last, since its processes use the other members until they end

  void fail(std::string what) {
    if (!failure.empty()) return;
    failure = std::move(what);
    journal.note("FAILED: " + failure);
  }
  /// How long after the last disturbance a request may still fail.
  static constexpr Duration kGrace = std::chrono::seconds(30);
  /// Fails the run if a request that began at `begun` had no excuse for this code.
  void expect_excuse(std::string_view what, Errc code, MonoTime begun);
};

/// Whether the code is transient: the request may have taken effect or not.
bool is_transient(Errc code);

}  // namespace spate::cluster
