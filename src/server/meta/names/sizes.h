// SPDX-License-Identifier: Apache-2.0
// Sizes: how size and mtime of files get from the datafiles into inodes (docs/consistency.md, "Size and times").
#pragma once

#include "server/meta/core/operation.h"
#include "wire/meta_messages.h"

namespace spate::meta {

/// What all datafiles say together becomes the inode's. mtime changes only if the datafiles have changed since it was
/// determined or set, unless the last close has set it (keep_mtime).
void store_summary(InodeRecord& inode, const wire::DataSummary& data);

/// `opens` opens for writing end. True when nobody writes the file any more: then
/// store_summary() or leave_unsettled() follows.
bool end_writes(InodeRecord& inode, std::uint32_t opens);

/// Nobody writes the file any more, and the settler is to ask the datafiles.
void leave_unsettled(Operation& operation, InodeRecord& inode);

/// An open of the inode has ended (its record is erased already): puts the inode, or removes it when it has neither
/// name nor open left.
job::Task<Result<void>> put_or_remove(Operation& operation, InodeRecord& inode);

/// Cuts or extends the file to `size`: changes `inode` (the caller puts it) and puts the intent that the settler
/// carries out, if there is anything to do at the datafiles. `alone`: no session but the caller's has it open for
/// writing. `opened`: the operation opens the file as well, with these rights; that goes when the truncation is
/// refused.
void begin_truncate(Operation& operation, InodeRecord& inode, std::uint64_t size, bool alone, Rights opened);

/// The io servers have refused a truncation for good: drops its intent, makes `why` the answer of the request that it
/// was part of, and ends what that request has opened. A file that nobody writes gets its earlier size back when it was
/// to grow beyond what is possible; else its size is what its datafiles say. Nothing happens when the intent is gone.
job::Task<Result<void>> give_up_truncation(Operation& operation, Handle handle, std::uint64_t generation, Error why);

/// If a truncation of the file is under way: kConflict, to be passed on; the operation runs again when it is done.
Result<void> after_truncations(Operation& operation, const InodeRecord& inode);

// Set-uid and set-gid lend a program's rights to whoever runs it; a change of its data by someone who is not root takes
// them away. Nobody tells the meta server of a write. So, as for mtime, the truth is in the datafiles: a file that such
// a user has open for writing has the bits only while the sum of the datafiles' change counters is the inode's.

/// A change of the data by someone who is not root takes set-uid and set-gid from a program.
void drop_lent_rights(const Credential& who, Attributes& attributes);
void drop_lent_rights(Attributes& attributes);

/// The datafiles' change counters sum up to `change_sum` now: the inode's is that, too, and lent rights go if a user
/// may have written since the one before.
void note_change_sum(InodeRecord& inode, std::uint64_t change_sum);

/// Whether the inode alone does not tell if the lent rights of this mode hold.
bool lends_in_doubt(const InodeRecord& inode);

/// Before attributes are shown: takes lent rights from `inode`, which is not put, when the datafiles say that it was
/// written, and when they cannot be asked.
job::Task<void> show_lent_rights(Operation& operation, InodeRecord& inode);

}  // namespace spate::meta
