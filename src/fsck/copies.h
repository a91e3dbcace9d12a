// SPDX-License-Identifier: Apache-2.0
// CopyCheck: compares the copies of mirrored files.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "fsck/contents.h"
#include "fsck/copy_repair.h"
#include "fsck/repair_queue.h"
#include "model/data_group.h"
#include "model/layout.h"

namespace spate::fsck {

/// Compares the members of each group that are serving: they must hold the same datafiles, of the same size and, if the
/// options ask for it, with the same contents. The others are reported as unchecked. Each difference from the
/// primary's copy is a finding. With repair, a lost copy is made anew from another one, and so is a copy that differs
/// from one on a trusted target. Reads each target page by page. Sends no request to io servers if no file is mirrored.
/// Life cycle: construct -> run() awaited once -> destroyed. One executor. Pinned.
class CopyCheck {
 public:
  CopyCheck(Servers& servers, const Options& options, RepairQueue& queue, Observer& observer)
      : servers_(servers),
        options_(options),
        queue_(queue),
        observer_(observer),
        contents_(servers, options.contents_rate),
        repair_(servers, observer, contents_) {}
  CopyCheck(const CopyCheck&) = delete;
  CopyCheck& operator=(const CopyCheck&) = delete;

  /// Fails if the meta server does not answer. DatafileCheck reports io servers that do not answer.
  job::Task<Result<void>> run(unsigned pass);

  /// Datafiles whose contents clients kept changing.
  std::uint64_t undecided() const { return contents_.undecided(); }
  /// The parts that were not compared, each with the reason.
  const std::vector<std::string>& unchecked() const { return unchecked_; }

 private:
  using Presences = std::vector<wire::DatafilePresence>;

  job::Task<Result<void>> learn_groups();
  job::Task<Result<void>> check_target(ServerId server, TargetId target);
  job::Task<Result<void>> check_page(const std::vector<wire::DatafileRef>& page, TargetId target);
  /// The copies that this one is compared with: the primary's with all others that serve, each other one with the
  /// primary's.
  job::Task<Result<std::vector<CopyPair>>> pairs_of(wire::DatafileRef datafile, TargetId target);
  job::Task<Result<std::optional<Layout>>> layout_of(Handle handle);
  job::Task<bool> differ(const CopyPair& pair);
  job::Task<Result<void>> look_again(CopyPair pair);
  job::Task<Result<void>> compare_contents(CopyPair pair, std::uint64_t size);
  job::Task<Result<bool>> is_pair(CopyPair pair);
  job::Task<std::string> tell_others(CopyPair pair, Extent part);
  bool is_primary(const CopyPair& pair, TargetId target) const;
  bool trusts(TargetId target, Handle handle) const;
  Result<void> check_trusted() const;
  void suspect(wire::Finding finding, CopyPair pair, const std::string& others);
  /// `all`: those of primaries, too, which needs all findings.
  job::Task<Result<void>> make_anew(bool all);
  /// Keeps repairs of sizes from taking what is left of a file for all of it.
  job::Task<Result<void>> guard_sizes();
  job::Task<Result<std::string>> why_to_leave_size(Handle handle);
  void note_absent();
  void tell_absent();
  void leave_unchecked(TargetId target, const Error& error);
  job::Task<Result<Presences>> look_at(TargetId target, std::vector<wire::DatafileRef> datafiles);

  Servers& servers_;
  const Options& options_;
  RepairQueue& queue_;
  Observer& observer_;
  ContentComparison contents_;
  unsigned pass_ = 1;
  std::uint64_t compared_ = 0;  // pairs
  std::vector<std::string> unchecked_;
  std::map<TargetId, DataGroup> groups_;
  std::map<TargetId, std::set<TargetId>> absent_;    // the groups in which a target does not serve
  std::map<Handle, std::optional<Layout>> layouts_;  // of the files of one page
  wire::DatafilePresence here_;                      // what differ() found
  wire::DatafilePresence there_;
  CopyRepair repair_;
  std::vector<WrongCopy> wrong_;  // to be made anew
};

}  // namespace spate::fsck
