// SPDX-License-Identifier: Apache-2.0
// The io server's records in the keyval store: read, changed, made durable. Formats: records.h.
#pragma once

#include <span>

#include "server/io/parts.h"
#include "wire/membership_messages.h"

namespace spate::io {

/// Recognises the store as this server's, and whether it knows the fences; with `make` one that is nobody's becomes it.
/// kWrongFileSystem: it is another server's; kNotFound: it is nobody's (emptied?): what it forbade is no longer known.
job::Task<Result<void>> open_store(Parts& parts, bool make);

/// Whether a tombstone forbids to write the datafile. Asks the store once for each entry; the caller holds its lock.
job::Task<Result<bool>> is_removed(Parts& parts, DatafileTable::Entry& entry);
/// kStaleHandle when it is.
job::Task<Result<void>> check_alive(Parts& parts, DatafileTable::Entry& entry);
/// check_alive() of those that hold nothing: to a client, what has been removed must not look like a hole.
/// `slots` and `states` go together.
job::Task<Result<void>> check_missing_alive(Parts& parts, Handle handle, std::span<const wire::SlotRef> slots,
                                            std::span<const wire::DatafileState> states);
/// False: is_removed() would say no, without asking the store.
bool may_be_removed(const DatafileTable::Entry& entry);

/// The newest truncate generation that need not be done any more; 0 before the first. (The one before the last, when a
/// crash of the machine may have undone the last.)
job::Task<Result<std::uint64_t>> load_truncate(Parts& parts, const DatafileKey& key);
/// Done, as far as this start of the machine goes. Survives the process.
job::Task<Result<void>> store_truncate(Parts& parts, const DatafileKey& key, std::uint64_t generation);
/// The record of its last truncate as it is now, for truncate_is_durable(); nothing before the first.
job::Task<Result<std::optional<Bytes>>> load_truncate_record(Parts& parts, const DatafileKey& key);
/// What the record told of is durable by now: it need never be done again. Unless another truncate came meanwhile.
job::Task<Result<void>> truncate_is_durable(Parts& parts, const DatafileKey& key, const Bytes& record);

/// Unsynced writes up to this change counter may be lost (LossRecord); 0: none.
job::Task<Result<std::uint64_t>> load_loss(Parts& parts, const DatafileKey& key);
/// Survives the process. A crash of the machine is a loss of its own, of which clients hear by the incarnation.
job::Task<Result<void>> store_loss(Parts& parts, const DatafileKey& key, std::uint64_t counter);
/// Removes up to one batch of losses from before the machine's last start.
job::Task<Result<void>> purge_losses(Parts& parts);

/// Tombstones for all of `keys` (never shortening one that is there); their records of truncates and losses go. Durable
/// when it ends.
job::Task<Result<void>> store_tombstones(Parts& parts, std::span<const DatafileKey> keys, WallTime until);
/// Removes up to one batch of tombstones that end at or before `now`; false when none is left.
job::Task<Result<bool>> purge_tombstones(Parts& parts, WallTime now);

struct TombstonePage {
  std::vector<TombstoneEnd> tombstones;
  Bytes next;  // where the next page begins; empty: there is none
};
/// Up to `max` tombstones, by their end; of what is damaged nothing is told. `from`: empty, or a page's `next`.
job::Task<Result<TombstonePage>> list_tombstones(Parts& parts, Bytes from, std::size_t max);
/// The start of the machine since which everything that has a tombstone has been removed once more; 0: none is known.
job::Task<Result<std::uint64_t>> load_redone_boot(Parts& parts);
/// Durable when it ends.
job::Task<Result<void>> store_redone_boot(Parts& parts, std::uint64_t boot);

/// The client's lowest epoch that is not fenced; 0 without a fence.
job::Task<Result<std::uint32_t>> load_fence(Parts& parts, ClientId client);
/// Never lowers a fence. Durable when it ends.
job::Task<Result<void>> store_fence(Parts& parts, ClientId client, std::uint32_t lowest_epoch);
/// The same for many: none is lowered. They survive the process.
job::Task<Result<void>> store_fences(Parts& parts, std::span<const wire::ClientFence> fences);
/// The store has all fences of before it was made. Durable when it ends, and so are they.
job::Task<Result<void>> store_fences_known(Parts& parts);
/// Looks at one batch of fences after parts.fence_looked_at, round and round, and removes those made at or before
/// `before`.
job::Task<Result<void>> purge_fences(Parts& parts, WallTime before);

}  // namespace spate::io
