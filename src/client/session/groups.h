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
  /// Older records than the known ones change nothing. What note_answer() has doubted is settled for these groups.
  void learn(const std::vector<DataGroup>& records);

  /// A member has answered: the server `server` in its run `incarnation`. If another server or run answered before, the
  /// group may have lost unsynced writes meanwhile, and only its record says whether it has.
  void note_answer(TargetId group, ServerId server, Incarnation incarnation);
  /// Whether the record must be asked for before loss() counts.
  bool in_doubt(TargetId group) const;
  /// Takes the place of a server's incarnation for writes to a mirrored file: it changes when the group may have lost
  /// unsynced writes on all members. 0: unknown.
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
