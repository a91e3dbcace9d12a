// SPDX-License-Identifier: Apache-2.0
// CopyRepair: has members of groups receive anew the copies that they have lost, or that are wrong.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fsck/contents.h"
#include "fsck/options.h"
#include "model/data_group.h"

namespace spate::fsck {

/// A copy that is to be replaced by another one. `pair.there` is the wrong copy, `pair.here` the right one.
struct WrongCopy {
  CopyPair pair;
  wire::Finding finding;
  Outcome outcome = Outcome::kLeft;
  std::string note;         // what was done, or what prevents the repair
  bool of_primary = false;  // the wrong copy is the primary's, and the other copies of its group have been checked
};

/// The servers do the work, as for a member that was absent: the group's primary leaves the member out, and the member
/// receives the datafiles when it returns. Meanwhile the group has one copy less. If the primary's own copies are
/// wrong, the member that has the right ones becomes the primary first, and then replaces them in the same way. It must
/// not have any wrong copy itself, for what the primary holds replaces what the others hold.
///
/// Life cycle: construct -> any number of run(), one after the other -> destroyed. One executor. Pinned. The arguments
/// of the constructor outlive it.
class CopyRepair {
 public:
  CopyRepair(Servers& servers, Observer& observer, ContentComparison& contents)
      : servers_(servers), observer_(observer), contents_(contents) {}
  CopyRepair(const CopyRepair&) = delete;
  CopyRepair& operator=(const CopyRepair&) = delete;

  /// A group, and one of its targets.
  using Member = std::pair<TargetId, TargetId>;

  /// Sets the outcome of each copy. Fails if the meta server does not answer.
  job::Task<Result<void>> run(std::vector<WrongCopy>& copies, unsigned pass);
  /// This member does not become the primary, for this reason.
  void distrust(const Member& member, const std::string& why) { distrusted_.emplace(member, why); }

 private:
  using Batch = std::vector<WrongCopy*>;  // of one member of one group, which receives them from one other

  job::Task<Result<void>> renew(const Batch& batch);
  job::Task<Result<bool>> make_primary(const Batch& batch);
  job::Task<Result<bool>> ask(const Batch& batch, TargetId primary);
  job::Task<Result<void>> look_at(const Batch& batch);
  job::Task<Result<DataGroup>> record_of(TargetId group);
  job::Task<Result<bool>> wait_until_it_serves(const CopyPair& pair, std::uint64_t epoch);

  Servers& servers_;
  Observer& observer_;
  ContentComparison& contents_;
  std::map<Member, std::string> distrusted_;
};

}  // namespace spate::fsck
