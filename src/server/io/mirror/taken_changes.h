// SPDX-License-Identifier: Apache-2.0
// TakenChanges: the changes that a member has taken from one term of its primary.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "job/event.h"
#include "server/io/mirror/mirror_records.h"

namespace spate::io {

/// Carries out a change that arrives twice only once. A change that the primary has not reported as done is doubtful:
/// other members may not have it. One executor; pinned.
class TakenChanges {
 public:
  struct Change {
    Change(job::Executor& executor, ChangedRegion its_first, std::uint64_t its_last)
        : first(its_first), last_region(its_last), ended(executor) {}
    const ChangedRegion first;
    const std::uint64_t last_region;
    job::Event ended;
    Errc status = Errc::kOk;  // valid once it has ended
  };

  explicit TakenChanges(job::Executor& executor) : executor_(executor), quiet_(executor) { quiet_.set(); }
  TakenChanges(const TakenChanges&) = delete;
  TakenChanges& operator=(const TakenChanges&) = delete;

  /// True: the change has ended on all members, so its sender has its answer.
  bool is_past(std::uint64_t number) const { return number < lowest_; }
  /// Null when it has not arrived before.
  std::shared_ptr<Change> find(std::uint64_t number) const;
  /// `first` and `last_region`: what it changes.
  std::shared_ptr<Change> begin(std::uint64_t number, ChangedRegion first, std::uint64_t last_region);
  void end(Change& change, Errc status);
  /// Changes with lower numbers have ended on all members.
  void done_below(std::uint64_t number);

  std::vector<ChangedRegion> doubtful() const;
  /// Set while nothing is being carried out.
  job::Event& quiet() { return quiet_; }
  /// Another term begins. Nothing may be under way.
  void clear() {
    changes_.clear();
    lowest_ = 1;
  }

 private:
  job::Executor& executor_;
  std::map<std::uint64_t, std::shared_ptr<Change>> changes_;
  std::uint64_t lowest_ = 1;
  std::size_t running_ = 0;
  job::Event quiet_;
};

}  // namespace spate::io
