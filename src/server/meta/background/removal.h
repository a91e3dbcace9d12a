// SPDX-License-Identifier: Apache-2.0
// RemovalQueue: deletes the datafiles of removed files, in the background (docs/consistency.md, "Removal").
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "job/event.h"
#include "job/gate.h"
#include "server/meta/core/core.h"

namespace spate::meta {

/// The removal records in the store are the queue. Memory holds only a small, bounded number of them. A target that
/// cannot be reached delays only the files that lie on it, and a file that its servers cannot remove delays only
/// itself. One executor; pinned. Life cycle: construct -> start() -> stop() awaited -> destroyed.
class RemovalQueue final : public Removals {
 public:
  RemovalQueue(MetaCore& core, metrics::Registry& metrics);

  /// Counts the records that an earlier process has left, and starts the background work.
  job::Task<Result<void>> start();
  job::Task<void> stop();

  void added(Handle handle) override;
  std::uint64_t pending() const override { return static_cast<std::uint64_t>(pending_.value()); }
  void hurry(Handle handle) override;
  void dropped() override { taken_off(1); }

 private:
  struct Delay {
    MonoTime retry_at;
    Duration backoff{0};
  };

  job::Task<Result<void>> count();
  job::Task<void> work();
  job::Task<void> wait_for_work();
  job::Task<void> gather();
  job::Task<Result<std::vector<DeadFile>>> next_batch();
  job::Task<Result<std::vector<DeadFile>>> load(std::vector<Handle> handles);
  job::Task<Result<std::vector<DeadFile>>> next_page();
  job::Task<Result<void>> keep_live_ones(std::vector<DeadFile>& files);
  job::Task<Result<void>> remove(std::vector<DeadFile> files);
  bool in_reach(const DeadFile& file) const;
  void note(const std::vector<DeadFile>& files, const RemoveOutcome& outcome);
  void delay_target(TargetId target, const RemoveOutcome& outcome);
  void delay_file(const DeadFile& file, const RemoveOutcome& outcome);
  void lengthen(Delay& delay) const;
  void push(Handle handle);
  void taken_off(std::uint64_t count) { pending_.add(-static_cast<std::int64_t>(std::min(count, pending()))); }

  MetaCore& core_;
  metrics::Gauge pending_;     // records in the store
  std::vector<Handle> fresh_;  // recently added files; if there are too many, a pass over the store finds them
  bool pass_wanted_ = false;
  bool in_pass_ = false;
  bool hurried_ = false;      // a request waits for a removal
  Bytes cursor_;              // how far the pass under way has come
  bool left_behind_ = false;  // the pass left some files that could not be removed
  std::map<TargetId, Delay> out_of_reach_;
  std::map<Handle, Delay> refused_;  // files that their servers cannot remove; at most kMaxRefused
  job::Event work_;
  job::StopSource stopping_;
  job::Gate gate_;
};

}  // namespace spate::meta
