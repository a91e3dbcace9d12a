// SPDX-License-Identifier: Apache-2.0
// ContentComparison: compares the data of two copies of a datafile.
#pragma once

#include <optional>
#include <vector>

#include "fsck/servers.h"
#include "model/layout.h"

namespace spate::fsck {

/// The copies of a datafile on two members of a group.
struct CopyPair {
  Handle handle;
  std::uint32_t slot = 0;
  TargetId group;
  TargetId here;
  TargetId there;
};

/// The servers read the data, as background work, and send digests. Life cycle: construct -> any number of comparisons,
/// one after the other -> destroyed. One executor. `servers` outlives it.
class ContentComparison {
 public:
  /// `rate`: the most bytes a second that are read of each copy; 0: no limit.
  ContentComparison(Servers& servers, std::uint64_t rate) : servers_(servers), rate_(rate) {}
  ContentComparison(const ContentComparison&) = delete;
  ContentComparison& operator=(const ContentComparison&) = delete;

  /// The first part in which the copies, of `size` bytes each, differ. Nothing: they are equal, or clients keep
  /// changing a part that differs, which undecided() counts. Copies count as different only if they stay so, and do not
  /// change, for more than a second. Fails when a server does not answer.
  job::Task<Result<std::optional<Extent>>> unequal_part(CopyPair pair, std::uint64_t size);

  /// Which of the two copies has the same bytes in this part as a third one, on `other`. Nothing: neither has. Fails
  /// when a server does not answer.
  job::Task<Result<std::optional<TargetId>>> alike(CopyPair pair, Extent part, TargetId other);

  /// Datafiles of which it could not say whether their copies are equal.
  std::uint64_t undecided() const { return undecided_; }

 private:
  enum class Verdict : std::uint8_t { kEqual, kUnequal, kChanging };
  using Digests = std::vector<std::uint64_t>;
  struct Both {
    Digests here;
    Digests there;
    bool operator==(const Both&) const = default;
  };

  job::Task<void> wait_for_turn(std::uint64_t bytes);
  job::Task<Result<Both>> read_both(const CopyPair& pair, Extent part);
  job::Task<Result<void>> read_one(const CopyPair& pair, TargetId target, Extent part, Digests& digests);
  job::Task<Result<Verdict>> watch(const CopyPair& pair, Extent part);

  Servers& servers_;
  const std::uint64_t rate_;
  MonoTime next_;  // nothing is read before
  std::uint64_t undecided_ = 0;
};

}  // namespace spate::fsck
