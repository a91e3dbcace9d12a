// SPDX-License-Identifier: Apache-2.0
// Confinement: what the holder of a key that is confined to a directory may reach (docs/security.md, "Keys for one
// directory").
#pragma once

#include <optional>
#include <unordered_set>
#include <vector>

#include "job/storage.h"
#include "rpc/call.h"
#include "server/meta/store/records.h"

namespace spate::meta {

/// How far an operation that asks for an object wants to go.
enum class Reach : std::uint8_t {
  kInside,    // only objects that the caller may use: all others are refused
  kOnTheWay,  // also the directories above the key's: to pass them and to show their attributes, and for nothing else
};

/// One caller and the directory of its key. An object is inside if its chain of parents leads to this directory, or if
/// the caller's session has it open. What it does not know to be inside it refuses.
///
/// Reads are those of the operation's run, and are not checked at its commit, as the directories of a path are not.
/// Life cycle: construct -> for each run: begin() -> questions.
class Confinement {
 public:
  /// The key of the call's peer has a directory. `call` outlives it.
  explicit Confinement(const rpc::Call& call) : call_(call), root_(call.peer->user_key->directory) {}

  /// The key's directory.
  Handle root() const { return root_; }
  /// A run begins: forgets what the run before has found.
  void begin();

  /// kPermissionDenied if the object is farther away than `reach`.
  job::Task<Result<void>> admit(job::Transaction& store, const InodeRecord& inode, Reach reach);
  /// The same by handle. An object that is not there is admitted: whoever reads it says kStaleHandle.
  job::Task<Result<void>> admit(job::Transaction& store, Handle handle, Reach reach);
  /// admit() for all handles of a request: each may be inside or on the way.
  job::Task<Result<void>> admit_all(job::Transaction& store, std::vector<Handle> handles);
  /// Whether the chain of parents leads to the key's directory: that the session has the object open does not count.
  job::Task<Result<bool>> is_below(job::Transaction& store, const InodeRecord& inode);
  /// kPermissionDenied for a name whose entry the caller may not learn: on the way, any but the one that leads on.
  job::Task<Result<void>> admit_name(job::Transaction& store, Handle directory,
                                     const std::optional<EntryRecord>& entry);

  /// The run has made this object.
  void made(Handle handle) { inside_.insert(handle); }
  /// Whether the run has found the object to be inside, or has made it.
  bool knows(Handle handle) const { return inside_.contains(handle) || opened_.contains(handle); }
  /// The run puts or erases what is under the key.
  void note_change(ByteView key);
  /// The run has changed what belongs to an object that it has not found to be inside: it must not be committed. What
  /// functions read has been checked before, so only one that does without these checks does so.
  bool beyond() const { return beyond_; }
  /// Whether the objects that the run has changed are inside in `now`, a later state than that of the run. Directories
  /// above may have been moved since.
  job::Task<Result<bool>> still_holds(job::Transaction& now) const;

 private:
  /// A directory above the key's, and the next one on the way down.
  struct Step {
    Handle directory;
    Handle next;
  };
  job::Task<Result<bool>> is_open(job::Transaction& store, Handle handle) const;
  job::Task<Result<void>> find_way(job::Transaction& store);
  const Step* step_at(Handle directory) const;

  const rpc::Call& call_;
  const Handle root_;
  std::unordered_set<Handle> inside_;
  std::unordered_set<Handle> opened_;  // by this session
  std::unordered_set<Handle> changed_;
  std::optional<std::vector<Step>> way_;
  bool beyond_ = false;
};

}  // namespace spate::meta
