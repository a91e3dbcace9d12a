// SPDX-License-Identifier: Apache-2.0
#include "client/session/groups.h"

namespace spate::client {

const DataGroup* Groups::find(TargetId group) const {
  const auto found = known_.find(group);
  return found == known_.end() ? nullptr : &found->second.record;
}

void Groups::learn(const std::vector<DataGroup>& records) {
  for (const DataGroup& record : records) {
    Known& known = known_[record.id];
    known.in_doubt = false;
    if (record.epoch > known.record.epoch || !known.record.id) known.record = record;
  }
}

void Groups::note_answer(TargetId group, ServerId server, Incarnation incarnation) {
  const auto found = known_.find(group);
  if (found == known_.end()) return;
  Known& known = found->second;
  if (known.answered == server && known.incarnation == incarnation) return;
  known.in_doubt = known.in_doubt || known.answered;
  known.answered = server;
  known.incarnation = incarnation;
}

bool Groups::in_doubt(TargetId group) const {
  const auto found = known_.find(group);
  return found != known_.end() && found->second.in_doubt;
}

Incarnation Groups::loss(TargetId group) const {
  const DataGroup* const known = find(group);
  return known == nullptr ? Incarnation() : Incarnation(known->loss + 1);
}

}  // namespace spate::client
