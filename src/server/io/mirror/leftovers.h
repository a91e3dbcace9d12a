// SPDX-License-Identifier: Apache-2.0
// Leftovers: removes copies that a loss of power has left behind (docs/availability.md, "Mirrored data").
#pragma once

#include "server/io/mirror/group_record_client.h"
#include "server/io/mirror/mirror_group.h"
#include "server/io/parts.h"

namespace spate::io {

/// A server whose place in a group another one has taken removes the copies that it has listed. What it had listed
/// shortly before its machine lost power may be gone from the list, while the datafile itself is not. So after a restart
/// the server looks once at all of its datafiles. It asks the meta server which ones it should not have, and to which
/// groups they belong.
///
/// A datafile is removed only if all of this holds, since the meta server's store may be an older copy of itself:
///  - Its file exists, and the file's layout does not name this server for it.
///  - This server's own records say that it was a member of the file's group, that others have taken its place, and that
///    the group is whole without it.
///  - It was written after its file was created, so it does not belong to an earlier file with the same handle.
///  - No list of a group in which this server is a member has it.
///
/// One executor; pinned. Life cycle: construct -> is_due() and sweep(), one at a time -> destroyed. `stopping` ends a
/// sweep early. The arguments outlive it.
class Leftovers {
 public:
  Leftovers(Parts& parts, MirrorGroups& groups, job::StopSource& stopping)
      : parts_(parts), groups_(groups), stopping_(stopping) {}
  Leftovers(const Leftovers&) = delete;
  Leftovers& operator=(const Leftovers&) = delete;

  /// Whether a sweep should begin now. While this server lacks changes of a group, the meta server calls none of its
  /// datafiles misplaced.
  bool is_due() const;
  /// Looks at all datafiles. A sweep that has failed is tried again after a while.
  job::Task<void> sweep(GroupRecordClient& meta);

 private:
  job::Task<Result<void>> sweep_target(Target& target, GroupRecordClient& meta);
  job::Task<Result<void>> look_at(Target& target, DatafileId datafile, GroupRecordClient& meta);
  job::Task<Result<bool>> is_listed(DatafileId datafile);
  job::Task<Result<void>> remove(MirrorGroup& group, Target& target, DatafileId datafile);
  bool is_left(const MirrorGroup& group) const;
  bool lacks_nothing() const;

  Parts& parts_;
  MirrorGroups& groups_;
  job::StopSource& stopping_;
  bool running_ = false;
  MonoTime next_;  // no sweep begins before
  std::uint64_t removed_ = 0;
};

}  // namespace spate::io
