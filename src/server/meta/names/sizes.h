// SPDX-License-Identifier: Apache-2.0
// Sizes: how size and mtime of files move from the datafiles into the inodes (docs/consistency.md, "Size and times").
#pragma once

#include "server/meta/core/operation.h"
#include "wire/meta_messages.h"

namespace spate::meta {

/// Stores the summary of all datafiles in the inode. mtime changes only if the datafiles have changed since it was
/// determined or set, unless the last close has set it (keep_mtime).
void store_summary(InodeRecord& inode, const wire::DataSummary& data);

/// Counts an open for writing.
void begin_write(InodeRecord& inode);

/// Whether the server believes the caller's report about the datafiles. It does not believe the holder of a user's key
/// about another user's program: the change sum from before a write would keep set-uid and set-gid.
bool believes_summary_of(Operation& operation, const InodeRecord& inode);
/// Ends `opens` opens for writing. True when nobody writes the file any more: then call store_summary() or
/// leave_unsettled().
bool end_writes(InodeRecord& inode, std::uint32_t opens);

/// Nobody writes the file any more: leaves a record that makes intent recovery ask the datafiles.
void leave_unsettled(Operation& operation, InodeRecord& inode);

/// Call it when an open of the inode has ended and its record is erased. Puts the inode, or removes it when it has no
/// name and no open left.
job::Task<Result<void>> put_or_remove(Operation& operation, InodeRecord& inode);

/// Truncates or extends the file to `size`. Changes `inode` (the caller puts it). If the datafiles must change, it puts
/// the intent that intent recovery carries out. `alone`: no session but the caller's has it open for writing. `opened`:
/// the operation also opens the file, with these rights; that open ends if the truncation is refused.
void begin_truncate(Operation& operation, InodeRecord& inode, std::uint64_t size, bool alone, Rights opened);

/// Call it when the io servers have refused a truncation for good. Drops the intent, makes `why` the answer to the
/// request that asked for the truncation, and ends the open that the request made. If the file was to grow beyond the
/// largest size and nobody writes it, it gets its earlier size back; else its size comes from its datafiles. Does
/// nothing if the intent is gone.
job::Task<Result<void>> give_up_truncation(Operation& operation, Handle handle, std::uint64_t generation, Error why);

/// Fails with kConflict while a truncation of the file is under way. Pass it on: the operation runs again when the
/// truncation is done.
Result<void> after_truncations(Operation& operation, const InodeRecord& inode);

// Set-uid and set-gid lend a program's rights to every user that runs it. A change of its data by a user other than
// root clears them. The meta server learns of no writes. So, as for mtime, the datafiles decide: while such a user has
// a file open for writing, the bits hold only as long as the sum of the datafiles' change counters equals the inode's.

/// A user other than root has changed the data: clears set-uid and set-gid.
void drop_setid_bits(const Credential& who, Attributes& attributes);
void drop_setid_bits(Attributes& attributes);

/// Sets the inode's change_sum to the present sum of the datafiles' change counters. Clears set-uid and set-gid if a
/// user may have written since the last sum.
void note_change_sum(InodeRecord& inode, std::uint64_t change_sum);

/// Whether the inode alone does not determine if its set-uid and set-gid bits still hold.
bool lends_in_doubt(const InodeRecord& inode);

/// Whether the inode's size may be the one from before a truncation that an earlier process has answered: then only the
/// datafiles know it.
bool size_in_doubt(MetaCore& core, const InodeRecord& inode);

/// Call it before attributes are returned. Clears set-uid and set-gid in `inode` (which is not put) if the datafiles
/// show that it was written, or cannot be asked. A size in doubt is returned as unknown. For a caller whose key is
/// confined to a directory it sets an unknown size, since io servers do not know what is below the directory. True: it
/// has set the size, which changes without a change of the inode.
job::Task<bool> show_as_it_is(Operation& operation, InodeRecord& inode);

}  // namespace spate::meta
