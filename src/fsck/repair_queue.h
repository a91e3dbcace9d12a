// SPDX-License-Identifier: Apache-2.0
// RepairQueue: collects suspicions. The server concerned checks each one again and, if requested, repairs it; the queue
// reports the outcome.
#pragma once

#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "fsck/options.h"
#include "fsck/servers.h"
#include "job/gate.h"

namespace spate::fsck {

/// One executor; pinned; servers, options and observer outlive it. One pass at a time: begin_pass() -> suspect() and
/// make_room() -> settle(). begin_pass() drops suspicions that were not settled. The queue holds about
/// options.max_findings suspicions: with repair it drops further ones (overflowed()), and another pass finds them;
/// without repair make_room() settles them.
///
/// Several requests to servers are under way at once, but make_room() and settle() wait for all of them, also if one
/// fails. After a failure the suspicions that were not settled are lost; repairs already made stay.
class RepairQueue {
 public:
  RepairQueue(Servers& servers, const Options& options, Observer& observer)
      : servers_(servers), options_(options), observer_(observer) {}
  RepairQueue(const RepairQueue&) = delete;
  RepairQueue& operator=(const RepairQueue&) = delete;

  void begin_pass(unsigned pass);
  /// Adds a suspicion. `leave`: the reason why it must not be repaired in this run; empty: it may be repaired.
  void suspect(wire::Finding finding, std::string leave = {});
  /// A copy of this file is lost or wrong. The size of the file is not looked at before that is settled: in this pass
  /// no wrong size is reported.
  void leave_size(Handle handle) { without_size_.insert(handle); }
  /// A wrong size of this file is reported and, for this reason, not repaired in this pass.
  void leave_size(Handle handle, const std::string& why);
  /// The files that are suspected to have a wrong size.
  std::set<Handle> wrong_sizes() const;
  /// A finding was dropped for want of room.
  void overflow() { overflowed_ = true; }
  /// Reports a finding that was confirmed, and dealt with, elsewhere.
  void conclude(wire::Finding finding, Outcome outcome, std::string note);
  /// Without repair, settles the suspicions if there are too many. The passes call it from time to time.
  job::Task<Result<void>> make_room();
  /// Settles all suspicions, in an order in which no repair invalidates another one. Fails if the meta server does not
  /// answer.
  job::Task<Result<void>> settle();

  /// Whether there were more than could be kept. Another pass finds them.
  bool overflowed() const { return overflowed_; }
  std::uint64_t found() const { return found_; }
  std::uint64_t repaired() const { return repaired_; }    // of all passes
  std::uint64_t left() const { return left_; }            // of this pass
  std::uint64_t undecided() const { return undecided_; }  // of this pass

 private:
  struct Suspicion {
    wire::Finding finding;
    std::string leave;
  };
  using Step = job::Task<Result<wire::MetaRepairReply>>;

  job::Task<void> settle_one(Suspicion& suspicion, Result<void>& failure);
  job::Task<Result<void>> look_and_mend(Suspicion& suspicion);
  Step ask_meta(const wire::Finding& finding, bool apply);
  Step ask_about_datafile(const wire::Finding& finding, bool apply);
  job::Task<Result<wire::Verdict>> cross_check(const wire::Finding& finding);
  job::Task<Result<void>> remove_datafile(const wire::Finding& finding);
  void report(const Suspicion& suspicion, const wire::MetaRepairReply& reply, Outcome outcome);
  void tell_progress(std::size_t done, std::size_t all);

  Servers& servers_;
  const Options& options_;
  Observer& observer_;
  unsigned pass_ = 1;
  std::vector<Suspicion> suspicions_;
  std::unordered_set<Handle> without_size_;     // of this pass
  std::unordered_set<std::uint64_t> met_;       // findings of this pass, by identity
  std::unordered_set<std::uint64_t> reported_;  // findings of any pass that were reported as not repaired, by identity
  bool overflowed_ = false;
  std::uint64_t found_ = 0;
  std::uint64_t repaired_ = 0;
  std::uint64_t left_ = 0;
  std::uint64_t undecided_ = 0;
};

}  // namespace spate::fsck
