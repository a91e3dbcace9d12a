// SPDX-License-Identifier: Apache-2.0
// Scene: what everything that acts in one simulation shares: the world, the models of what is right, the journal.
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

/// What has happened, in words: a digest of all of it, and the last lines for whoever looks into a failure.
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

/// When the cluster was last disturbed: only then may a request fail for reasons of the moment.
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

  const std::uint64_t disk_bytes;  // of each disk, when all is well
  const bmi::sim::LinkOptions usual_link;

  Journal journal;
  NameTable names;
  Targets targets;
  History history;
  DataModel data;
  AppendModel appends;
  std::set<std::uint64_t> scratch;  // files that only take copies
  LockModel locks;
  Disturbances disturbances;
  /// An io server has died since the beginning.
  bool io_server_died = false;
  /// That, or the write-back of an io server's disk has failed: an fsync may say that a write may be lost.
  bool writes_may_be_lost();
  /// A meta server has served. Until then a crash of its machine may leave nothing at all, not even a root.
  bool made = false;
  /// The meta server's machine has crashed: opens may have been forgotten.
  bool opens_lost = false;
  MonoTime meta_crashed_at{Duration(-1)};
  /// Files that clients heard of after a crash of the meta server's machine by answers from before it.
  std::set<std::uint64_t> perhaps_forgotten;
  std::uint64_t operations_left = 0;
  /// How often what pages held was compared with the file, as an open had kept them.
  std::uint64_t pages_kept = 0;
  /// Clients take their time while something is broken, so that they are still there when it matters.
  Duration pause() const;
  /// A killed client's write that may still land: others write there until then.
  struct LateWrite {
    std::uint64_t handle = 0;
    std::vector<Extent> extents;
    MonoTime until;
  };
  std::optional<LateWrite> late;
  /// Writes under a lock that failed and may still take effect.
  std::uint64_t guard_doubts = 0;
  /// Who has a lock is cut off: others are to want it until he writes on.
  MonoTime guard_wanted_until;
  /// Write-back is about to fail: all clients write one file, each in a place of its own, and then all sync it.
  struct SharedLoss {
    ServerId server;
    std::uint64_t handle = 0;  // the first client to come chooses; 0: none yet
    MonoTime written;
    MonoTime synced;
  };
  SharedLoss shared_loss;
  /// Somebody with that lock waits for another's truncation of the file, which takes nothing away.
  MonoTime growth_wanted_until;
  std::uint64_t growths = 0;  // that were begun
  /// Nothing passes between these nodes for a while.
  void part(std::uint32_t a, std::uint32_t b, Duration span);
  /// The disks of this io server refuse truncations for a while.
  void refuse_cuts(ServerId server, Duration span);
  /// Set by whoever drives the faults: the meta server's process is killed and started again at once.
  UniqueFunction<void()> restart_meta;
  std::string failure;  // the first one
  World world;          // last: at its end processes still tell the others of this and that

  void fail(std::string what) {
    if (!failure.empty()) return;
    failure = std::move(what);
    journal.note("FAILED: " + failure);
  }
  /// How long after the last disturbance a request may still fail.
  static constexpr Duration kGrace = std::chrono::seconds(30);
  /// Fails the run when a request of this begin had no reason to end so.
  void expect_excuse(std::string_view what, Errc code, MonoTime begun);
};

/// Errors of the moment: the request may or may not have had its effect.
bool is_transient(Errc code);

}  // namespace spate::cluster
