// SPDX-License-Identifier: Apache-2.0
// Reads and changes the io server's records in the keyval store, and makes them durable. Formats: records.h.
#pragma once

#include <span>

#include "server/io/parts.h"
#include "wire/membership_messages.h"

namespace spate::io {

/// Checks that the store is this server's, and reads whether it knows the fences. `make`: a store that belongs to no
/// server becomes this server's. kWrongFileSystem: it is another server's. kNotFound: it belongs to no server; somebody
/// may have emptied it, and then its fences and tombstones are lost.
job::Task<Result<void>> open_store(Parts& parts, bool make);

/// Whether a tombstone forbids writing the datafile. Asks the store once for each entry, and notes the file's number
/// then; the caller holds the datafile's lock.
job::Task<Result<bool>> is_removed(Parts& parts, DatafileTable::Entry& entry);
/// Fails with kStaleHandle if is_removed().
job::Task<Result<void>> check_alive(Parts& parts, DatafileTable::Entry& entry);
/// check_alive() for the datafiles without data: to a client, a removed datafile must not look like a hole. `places`,
/// `slots` and `states` correspond.
job::Task<Result<void>> check_missing_alive(Parts& parts, Handle handle, std::span<const Place> places,
                                            std::span<const wire::SlotRef> slots,
                                            std::span<const wire::DatafileState> states);
/// False: is_removed() would yield false without asking the store.
bool may_be_removed(const DatafileTable::Entry& entry);

/// The newest truncate generation that need not be carried out again; 0 before the first. If a crash of the machine may
/// have undone the last one, it is the one before.
job::Task<Result<std::uint64_t>> load_truncate(Parts& parts, const DatafileKey& key);
/// The truncate has been carried out in this boot of the machine. The record survives the process.
job::Task<Result<void>> store_truncate(Parts& parts, const DatafileKey& key, std::uint64_t generation);
/// The present record of its last truncate, for truncate_is_durable(); nothing before the first.
job::Task<Result<std::optional<Bytes>>> load_truncate_record(Parts& parts, const DatafileKey& key);
/// The truncate in `record` is durable by now and need never be carried out again. Does nothing if another truncate
/// came meanwhile.
job::Task<Result<void>> truncate_is_durable(Parts& parts, const DatafileKey& key, const Bytes& record);

/// Unsynced writes up to this change counter may be lost (LossRecord); 0: none.
job::Task<Result<std::uint64_t>> load_loss(Parts& parts, const DatafileKey& key);
/// The loss survives the process. A crash of the machine is another loss, which the server's incarnation tells clients.
job::Task<Result<void>> store_loss(Parts& parts, const DatafileKey& key, std::uint64_t counter);
/// Removes up to one batch of losses from before the machine's last boot.
job::Task<Result<void>> purge_losses(Parts& parts);

/// Stores tombstones for all of `keys` (never shortening an existing one), and removes their records of truncates and
/// losses. Durable when it ends.
job::Task<Result<void>> store_tombstones(Parts& parts, std::span<const DatafileKey> keys, WallTime until);
/// Removes up to one batch of tombstones that end at or before `now`; false when none is left.
job::Task<Result<bool>> purge_tombstones(Parts& parts, WallTime now);

struct TombstonePage {
  std::vector<TombstoneEnd> tombstones;
  Bytes next;  // begin of the next page; empty: there is none
};
/// Up to `max` tombstones, ordered by expiry; leaves damaged ones out. `from`: empty, or a page's `next`.
job::Task<Result<TombstonePage>> list_tombstones(Parts& parts, Bytes from, std::size_t max);
/// The boot of the machine in which all datafiles with tombstones were removed again; 0: unknown.
job::Task<Result<std::uint64_t>> load_redone_boot(Parts& parts);
/// The record is durable when it ends.
job::Task<Result<void>> store_redone_boot(Parts& parts, std::uint64_t boot);

/// The client's lowest epoch that is not fenced; 0 without a fence.
job::Task<Result<std::uint32_t>> load_fence(Parts& parts, ClientId client);
/// Never lowers a fence. Durable when it ends.
job::Task<Result<void>> store_fence(Parts& parts, ClientId client, std::uint32_t lowest_epoch);
/// store_fence() for many clients. The fences survive the process, but perhaps not a crash of the machine.
job::Task<Result<void>> store_fences(Parts& parts, std::span<const wire::ClientFence> fences);
/// Up to `max` fences of clients above `after`, ascending.
job::Task<Result<std::vector<wire::ClientFence>>> list_fences(Parts& parts, ClientId after, std::size_t max);
/// The store now has all fences from before it was made. Durable when it ends, and so are the fences.
job::Task<Result<void>> store_fences_known(Parts& parts);
/// Examines one batch of fences after parts.fence_looked_at, in a circle, and removes those made at or before `before`.
job::Task<Result<void>> purge_fences(Parts& parts, WallTime before);

}  // namespace spate::io
