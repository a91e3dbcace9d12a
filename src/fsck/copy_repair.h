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
  std::string note;  // what was done, or what prevents the repair
};

/// The servers do the work, as for a member that was absent: the group's primary notes the datafiles and leaves the
/// member out, and the member receives them when it returns. Meanwhile the group has one copy less.
///
/// Life cycle: construct -> any number of run(), one after the other -> destroyed. One executor. Pinned. The arguments
/// of the constructor outlive it.
class CopyRepair {
 public:
  CopyRepair(Servers& servers, Observer& observer) : servers_(servers), observer_(observer) {}
  CopyRepair(const CopyRepair&) = delete;
  CopyRepair& operator=(const CopyRepair&) = delete;

  /// Sets the outcome of each copy. Fails if the meta server does not answer.
  job::Task<Result<void>> run(std::vector<WrongCopy>& copies, unsigned pass);

 private:
  using Batch = std::vector<WrongCopy*>;  // of one member of one group, which receives them from one other

  job::Task<Result<void>> renew(const Batch& batch);
  job::Task<Result<void>> look_at(const Batch& batch);
  job::Task<Result<DataGroup>> record_of(TargetId group);
  job::Task<Result<bool>> wait_until_it_serves(const CopyPair& pair, std::uint64_t epoch);

  Servers& servers_;
  Observer& observer_;
};

}  // namespace spate::fsck
