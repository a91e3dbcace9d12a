// SPDX-License-Identifier: Apache-2.0
// Groups: a client's knowledge about groups of targets that keep the same datafiles (docs/architecture.md, "Mirrored
// data").
#pragma once

#include <map>
#include <vector>

#include "model/data_group.h"

namespace spate::client {

/// The newest record of each group that this client has used. One executor.
class Groups {
 public:
  /// Null: the client has not asked for this group yet.
  const DataGroup* find(TargetId group) const;
  /// Records older than the known ones change nothing. Ends the doubts of note_answer() for these groups.
  void learn(const std::vector<DataGroup>& records);

  /// A member of the group has answered: `server`, in its run `incarnation`. If another server or run answered before,
  /// the group may have lost unsynced writes meanwhile. Only the group's record says whether it has.
  void note_answer(TargetId group, ServerId server, Incarnation incarnation);
  /// Whether the client must ask for the group's record before loss() counts.
  bool in_doubt(TargetId group) const;
  /// For a mirrored file this replaces the incarnation of the server that took a write. The value changes when the
  /// group may have lost unsynced writes on all members. 0: unknown.
  Incarnation loss(TargetId group) const;

 private:
  struct Known {
    DataGroup record;
    ServerId answered;  // 0: nobody yet
    Incarnation incarnation;
    bool in_doubt = false;
  };
  std::map<TargetId, Known> known_;
};

}  // namespace spate::client
