// SPDX-License-Identifier: Apache-2.0
// The records of data groups in the io server's keyval store, byte for byte: docs/disk-io.md.
#pragma once

#include "base/bytes.h"
#include "model/data_group.h"

namespace spate::io {

/// The record of a group that this member accepts. The member refuses what belongs to earlier epochs.
struct GroupNote {
  DataGroup record;
  bool lacks_all = false;  // this member has nothing of the group's data, or only a part
  std::uint64_t boot = 0;  // the machine's boot in which the note was made
  friend bool operator==(const GroupNote&, const GroupNote&) = default;
};

/// A changed range of one datafile: the MiB with this number, or everything from there to the end.
struct ChangedRegion {
  static constexpr std::uint64_t kBytes = 1U << 20U;
  DatafileId datafile;
  bool to_the_end = false;
  std::uint64_t region = 0;
  friend auto operator<=>(const ChangedRegion&, const ChangedRegion&) = default;
};

Bytes group_note_key(TargetId group);
/// All notes lie between these two.
Bytes group_note_first();
Bytes group_note_after_all();
Bytes change_key(TargetId group, const ChangedRegion& region);
/// All changes of the group lie between these two.
Bytes change_first(TargetId group);
Bytes change_after_all(TargetId group);
Result<ChangedRegion> decode_change_key(ByteView key);

/// The key of a datafile in the list of the group's datafiles; its value is empty.
Bytes group_datafile_key(TargetId group, DatafileId datafile);
/// All of the list lies between these two.
Bytes group_datafile_first(TargetId group);
Bytes group_datafile_after_all(TargetId group);
Result<DatafileId> decode_group_datafile_key(ByteView key);

Bytes encode(const GroupNote& note);
/// kCorrupt, or kFormatTooNew for a version that this build does not know.
Result<GroupNote> decode_group_note(ByteView value);
/// The value of a change is the window of the change log in which it was made last.
Bytes encode_change(std::uint64_t window);
Result<std::uint64_t> decode_change(ByteView value);

}  // namespace spate::io
