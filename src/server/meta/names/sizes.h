// SPDX-License-Identifier: Apache-2.0
// Sizes: how size and mtime of files get from the datafiles into inodes (docs/consistency.md, "Size and times").
#pragma once

#include "server/meta/core/operation.h"
#include "wire/meta_messages.h"

namespace spate::meta {

/// Stores the summary of all datafiles in the inode. mtime changes only if the datafiles have changed since it was
/// determined or set, unless the last close has set it (keep_mtime).
void store_summary(InodeRecord& inode, const wire::DataSummary& data);

/// Counts an open for writing.
void begin_write(InodeRecord& inode);

/// Ends `opens` opens for writing. True when nobody writes the file any more: then call store_summary() or
/// leave_unsettled().
bool end_writes(InodeRecord& inode, std::uint32_t opens);

/// Nobody writes the file any more: leaves a record that makes intent recovery ask the datafiles.
void leave_unsettled(Operation& operation, InodeRecord& inode);

/// Call it when an open of the inode has ended and its record is erased. Puts the inode, or removes it when it has no
/// name and no open left.
job::Task<Result<void>> put_or_remove(Operation& operation, InodeRecord& inode);

/// Cuts or extends the file to `size`. Changes `inode` (the caller puts it). If the datafiles must change, it puts the
/// intent that intent recovery carries out. `alone`: no session but the caller's has it open for writing. `opened`: the
/// operation opens the file as well, with these rights; this open ends if the truncation is refused.
void begin_truncate(Operation& operation, InodeRecord& inode, std::uint64_t size, bool alone, Rights opened);

/// Call it when the io servers have refused a truncation for good. Drops the intent, makes `why` the answer to the
/// request that the truncation is part of, and ends what that request has opened. A file that nobody writes gets its
/// earlier size back if it was to grow beyond what is possible; else its size comes from its datafiles. Does nothing
/// when the intent is gone.
job::Task<Result<void>> give_up_truncation(Operation& operation, Handle handle, std::uint64_t generation, Error why);

/// Fails with kConflict while a truncation of the file is under way. Pass it on: the operation runs again when the
/// truncation is done.
Result<void> after_truncations(Operation& operation, const InodeRecord& inode);

// Set-uid and set-gid lend a program's rights to whoever runs it; a change of its data by someone who is not root takes
// them away. Nobody tells the meta server of a write. So, as for mtime, the truth is in the datafiles: a file that such
// a user has open for writing has the bits only while the sum of the datafiles' change counters is the inode's.

/// A change of the data by someone who is not root takes set-uid and set-gid from a program.
void drop_lent_rights(const Credential& who, Attributes& attributes);
void drop_lent_rights(Attributes& attributes);

/// Sets the inode's change_sum to the present sum of the datafiles' change counters. Takes set-uid and set-gid away if
/// a user may have written since the last sum.
void note_change_sum(InodeRecord& inode, std::uint64_t change_sum);

/// True when the inode alone does not tell whether its set-uid and set-gid bits still hold.
bool lends_in_doubt(const InodeRecord& inode);

/// The size in the inode may be the one from before a truncation that a process before this one has answered: only the
/// datafiles tell it.
bool size_in_doubt(MetaCore& core, const InodeRecord& inode);

/// Call it before attributes are shown. Takes set-uid and set-gid from `inode` (which is not put) when the datafiles
/// say that it was written, or when they cannot be asked. A size in doubt is shown as one that is not known.
job::Task<void> show_as_it_is(Operation& operation, InodeRecord& inode);

}  // namespace spate::meta
