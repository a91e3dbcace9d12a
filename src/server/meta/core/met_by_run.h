// SPDX-License-Identifier: Apache-2.0
// MetByRun: the objects that one run of an operation has met and that are delegated to other sessions.
#pragma once

#include <cstdint>
#include <vector>

#include "model/ids.h"

namespace spate::meta {

class Operation;
struct MetaParts;

/// Changes of such an object may be queued at its session. So nothing that the run has read counts: it ends as a
/// conflict does, and the operation runs again when that session has sent what it has queued. Life cycle: construct ->
/// for each run: begin() -> meet(). One executor.
class MetByRun {
 public:
  /// Both outlive it. `operation` may still be under construction.
  MetByRun(const Operation& operation, const MetaParts& parts) : operation_(operation), parts_(parts) {}

  void begin();
  /// Whether changes of the object may be queued at another session.
  bool meet(Handle object) { return possible_ && look(object); }
  /// A directory may have been delegated after the run has read it.
  void meet_all(const std::vector<Handle>& objects);

  bool empty() const { return objects_.empty(); }
  const std::vector<Handle>& objects() const { return objects_; }

 private:
  bool look(Handle object);

  const Operation& operation_;
  const MetaParts& parts_;
  bool possible_ = false;   // anything is delegated
  std::uint64_t ends_ = 0;  // of delegations, when the run began
  std::vector<Handle> objects_;
};

}  // namespace spate::meta
