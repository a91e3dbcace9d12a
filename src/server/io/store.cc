// SPDX-License-Identifier: Apache-2.0
#include "server/io/store.h"

#include <algorithm>
#include <cstdio>

#include "trove/key_order.h"

namespace spate::io {
namespace {

/// How often in a row a change may conflict before it fails. Only the background work can cause conflicts.
constexpr int kMaxConflicts = 16;
constexpr std::size_t kPurgeBatch = 256;

job::Task<Result<std::optional<Bytes>>> get(job::Transaction& transaction, ByteView key) {
  trove::KeyvalCompletion got = co_await transaction.get(key);
  if (got.status != Errc::kOk) co_return got.status;
  co_return std::move(got.value);
}

/// Reads the value of one key, outside of any change.
job::Task<Result<std::optional<Bytes>>> load(Parts& parts, Bytes key) {
  job::Transaction transaction = parts.keyval.begin();
  auto value = co_await get(transaction, key);
  co_return value;
}

job::Task<Result<void>> commit(job::Transaction& transaction, trove::Durability durability) {
  const trove::KeyvalCompletion done = co_await transaction.commit(durability);
  if (done.status != Errc::kOk) co_return done.status;
  co_return Result<void>();
}

/// Adds the tombstones to the transaction.
job::Task<Result<void>> add_tombstones(job::Transaction& transaction, std::span<const DatafileKey> keys,
                                       WallTime until) {
  for (const DatafileKey& key : keys) {
    const Bytes name = tombstone_key(key);
    SPATE_CO_TRY(const std::optional<Bytes> there, co_await get(transaction, name));
    TombstoneRecord record{until};
    if (there) {
      SPATE_CO_TRY(const TombstoneRecord old, decode_tombstone(*there));
      transaction.erase(tombstone_end_key(old.until, key));
      record.until = std::max(record.until, old.until);
    }
    transaction.put(name, encode(record));
    transaction.put(tombstone_end_key(record.until, key), {});
    transaction.erase(truncate_key(key));
    transaction.erase(loss_key(key));
  }
  co_return Result<void>();
}

std::string words(const IdentityRecord& identity) {
  char text[64];
  std::snprintf(text, sizeof text, "server %u of file system %016llx", identity.server.value,
                static_cast<unsigned long long>(identity.fs.value));
  return text;
}

}  // namespace

job::Task<Result<void>> open_store(Parts& parts, bool make) {
  const IdentityRecord wanted{parts.options.fs, parts.options.server};
  job::Transaction transaction = parts.keyval.begin();
  SPATE_CO_TRY(const std::optional<Bytes> value, co_await get(transaction, identity_key()));
  if (value) {
    SPATE_CO_TRY(const IdentityRecord found, decode_identity(*value));
    if (found == wanted) {
      SPATE_CO_TRY(const std::optional<Bytes> joining, co_await get(transaction, joining_key()));
      if (joining) {
        SPATE_CO_TRY(std::ignore, decode_joining(*joining));
      }
      parts.fences_known = !joining;
      co_return Result<void>();
    }
    co_return Error::told(Errc::kWrongFileSystem, "the store belongs to another file system or server: to " +
                                                      words(found) + ", not to " + words(wanted));
  }
  if (!make) co_return Error::told(Errc::kNotFound, "the store does not say whose it is: was it emptied?");
  transaction.put(identity_key(), encode(wanted));
  parts.fences_known = !parts.options.learn_fences;
  if (!parts.fences_known) transaction.put(joining_key(), encode(JoiningRecord()));
  auto done = co_await commit(transaction, trove::Durability::kMachine);
  co_return done;
}

bool may_be_removed(const DatafileTable::Entry& entry) { return !entry.tombstone_known || entry.tombstone.has_value(); }

job::Task<Result<bool>> is_removed(Parts& parts, DatafileTable::Entry& entry) {
  if (!entry.tombstone_known) {
    SPATE_CO_TRY(std::ignore, co_await parts.marks.note(entry.key.id.handle));
    SPATE_CO_TRY(const std::optional<Bytes> value, co_await load(parts, tombstone_key(entry.key)));
    // A removal may have set the entry meanwhile, and what it set is newer.
    if (value && !entry.tombstone_known) {
      SPATE_CO_TRY(const TombstoneRecord record, decode_tombstone(*value));
      entry.tombstone = record.until;
    }
    entry.tombstone_known = true;
  }
  co_return entry.tombstone && *entry.tombstone > parts.now();
}

job::Task<Result<void>> check_alive(Parts& parts, DatafileTable::Entry& entry) {
  SPATE_CO_TRY(const bool removed, co_await is_removed(parts, entry));
  if (removed) co_return Error::told(Errc::kStaleHandle, "the file has been removed");
  co_return Result<void>();
}

job::Task<Result<void>> check_missing_alive(Parts& parts, Handle handle, std::span<const Place> places,
                                            std::span<const wire::SlotRef> slots,
                                            std::span<const wire::DatafileState> states) {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (states[i].change_counter != 0) continue;
    const auto datafile = parts.datafiles.use({places[i].target->description.id, {handle, slots[i].slot}});
    if (!may_be_removed(*datafile)) continue;
    SPATE_CO_TRY(std::ignore, co_await check_alive(parts, *datafile));
  }
  co_return Result<void>();
}

job::Task<Result<std::uint64_t>> load_truncate(Parts& parts, const DatafileKey& key) {
  SPATE_CO_TRY(const std::optional<Bytes> value, co_await load(parts, truncate_key(key)));
  if (!value) co_return std::uint64_t{0};
  SPATE_CO_TRY(const TruncateRecord record, decode_truncate(*value));
  const bool sure = record.boot == 0 || record.boot == parts.options.boot;
  co_return sure ? record.generation : record.generation - 1;
}

job::Task<Result<void>> store_truncate(Parts& parts, const DatafileKey& key, std::uint64_t generation) {
  job::Transaction transaction = parts.keyval.begin();
  transaction.put(truncate_key(key), encode(TruncateRecord{generation, parts.options.boot}));
  auto done = co_await commit(transaction, trove::Durability::kProcess);
  co_return done;
}

job::Task<Result<std::optional<Bytes>>> load_truncate_record(Parts& parts, const DatafileKey& key) {
  auto value = co_await load(parts, truncate_key(key));
  co_return value;
}

job::Task<Result<void>> truncate_is_durable(Parts& parts, const DatafileKey& key, const Bytes& before) {
  SPATE_CO_TRY(TruncateRecord record, decode_truncate(before));
  if (record.boot == 0) co_return Result<void>();
  record.boot = 0;
  const Bytes name = truncate_key(key);
  Result<void> done = Errc::kConflict;
  for (int i = 0; i < kMaxConflicts && done.code() == Errc::kConflict; ++i) {
    job::Transaction transaction = parts.keyval.begin();
    SPATE_CO_TRY(const std::optional<Bytes> now, co_await get(transaction, name));
    if (now != before) co_return Result<void>();
    transaction.put(name, encode(record));
    done = co_await commit(transaction, trove::Durability::kMachine);
  }
  co_return done;
}

job::Task<Result<std::uint64_t>> load_loss(Parts& parts, const DatafileKey& key) {
  SPATE_CO_TRY(const std::optional<Bytes> value, co_await load(parts, loss_key(key)));
  if (!value) co_return std::uint64_t{0};
  SPATE_CO_TRY(const LossRecord record, decode_loss(*value));
  co_return record.boot == parts.options.boot ? record.counter : 0;
}

job::Task<Result<void>> store_loss(Parts& parts, const DatafileKey& key, std::uint64_t counter) {
  job::Transaction transaction = parts.keyval.begin();
  transaction.put(loss_key(key), encode(LossRecord{counter, parts.options.boot}));
  auto done = co_await commit(transaction, trove::Durability::kProcess);
  co_return done;
}

job::Task<Result<void>> purge_losses(Parts& parts) {
  job::Transaction transaction = parts.keyval.begin();
  trove::KeyRange range;
  range.begin = loss_first();
  range.end = loss_after_all();
  range.limit = kPurgeBatch;
  const trove::KeyvalCompletion found = co_await transaction.range(range);
  if (found.status != Errc::kOk) co_return found.status;
  bool any = false;
  for (const trove::KeyValue& entry : found.entries) {
    const auto record = decode_loss(entry.value);
    if (!record || record->boot == parts.options.boot) continue;
    transaction.erase(entry.key);
    any = true;
  }
  if (!any) co_return Result<void>();
  // After a conflict with a new loss, the next round sees that.
  auto done = co_await commit(transaction, trove::Durability::kProcess);
  if (!done && done.code() != Errc::kConflict) co_return done;
  co_return Result<void>();
}

job::Task<Result<void>> store_tombstones(Parts& parts, std::span<const DatafileKey> keys, WallTime until) {
  Result<void> done = Errc::kConflict;
  for (int i = 0; i < kMaxConflicts && done.code() == Errc::kConflict; ++i) {
    job::Transaction transaction = parts.keyval.begin();
    SPATE_CO_TRY(std::ignore, co_await add_tombstones(transaction, keys, until));
    done = co_await commit(transaction, trove::Durability::kMachine);
  }
  co_return done;
}

job::Task<Result<bool>> purge_tombstones(Parts& parts, WallTime now) {
  job::Transaction transaction = parts.keyval.begin();
  trove::KeyRange range;
  range.begin = tombstone_end_first();
  range.end = tombstone_end_after(now);
  range.limit = kPurgeBatch;
  const trove::KeyvalCompletion found = co_await transaction.range(range);
  if (found.status != Errc::kOk) co_return found.status;
  for (const trove::KeyValue& entry : found.entries) {
    transaction.erase(entry.key);
    const auto end = decode_tombstone_end_key(entry.key);
    if (end) transaction.erase(tombstone_key(end->datafile));
  }
  if (found.entries.empty()) co_return false;
  // After a conflict with a removal, the next round sees its result.
  auto done = co_await commit(transaction, trove::Durability::kProcess);
  if (!done && done.code() != Errc::kConflict) co_return done.error();
  co_return found.more;
}

job::Task<Result<TombstonePage>> list_tombstones(Parts& parts, Bytes from, std::size_t max) {
  job::Transaction transaction = parts.keyval.begin();
  trove::KeyRange range;
  range.begin = from.empty() ? tombstone_end_first() : std::move(from);
  range.end = tombstone_end_after_all();
  range.limit = max;
  range.mode = trove::ReadMode::kSnapshot;
  const trove::KeyvalCompletion found = co_await transaction.range(range);
  if (found.status != Errc::kOk) co_return found.status;
  TombstonePage page;
  for (const trove::KeyValue& entry : found.entries) {
    const auto end = decode_tombstone_end_key(entry.key);
    if (end) page.tombstones.push_back(*end);
  }
  if (found.more) page.next = trove::key_after(found.entries.back().key);
  co_return page;
}

job::Task<Result<std::uint64_t>> load_redone_boot(Parts& parts) {
  SPATE_CO_TRY(const std::optional<Bytes> value, co_await load(parts, redone_key()));
  if (!value) co_return std::uint64_t{0};
  SPATE_CO_TRY(const RedoneRecord record, decode_redone(*value));
  co_return record.boot;
}

job::Task<Result<void>> store_redone_boot(Parts& parts, std::uint64_t boot) {
  job::Transaction transaction = parts.keyval.begin();
  transaction.put(redone_key(), encode(RedoneRecord{boot}));
  auto done = co_await commit(transaction, trove::Durability::kMachine);
  co_return done;
}

job::Task<Result<std::uint32_t>> load_fence(Parts& parts, ClientId client) {
  SPATE_CO_TRY(const std::optional<Bytes> value, co_await load(parts, fence_key(client)));
  if (!value) co_return std::uint32_t{0};
  SPATE_CO_TRY(const FenceRecord record, decode_fence(*value));
  co_return record.lowest_epoch;
}

job::Task<Result<void>> store_fence(Parts& parts, ClientId client, std::uint32_t lowest_epoch) {
  const Bytes key = fence_key(client);
  Result<void> done = Errc::kConflict;
  for (int i = 0; i < kMaxConflicts && done.code() == Errc::kConflict; ++i) {
    job::Transaction transaction = parts.keyval.begin();
    SPATE_CO_TRY(const std::optional<Bytes> value, co_await get(transaction, key));
    FenceRecord record{lowest_epoch, parts.now()};
    if (value) {
      SPATE_CO_TRY(const FenceRecord old, decode_fence(*value));
      record.lowest_epoch = std::max(record.lowest_epoch, old.lowest_epoch);
    }
    transaction.put(key, encode(record));
    done = co_await commit(transaction, trove::Durability::kMachine);
  }
  co_return done;
}

job::Task<Result<std::vector<wire::ClientFence>>> list_fences(Parts& parts, ClientId after, std::size_t max) {
  job::Transaction transaction = parts.keyval.begin();
  trove::KeyRange range;
  range.begin = fence_key(ClientId(after.value + 1));
  range.end = fence_after_all();
  range.limit = max;
  range.mode = trove::ReadMode::kSnapshot;
  const trove::KeyvalCompletion found = co_await transaction.range(range);
  if (found.status != Errc::kOk) co_return found.status;
  std::vector<wire::ClientFence> fences;
  for (const trove::KeyValue& entry : found.entries) {
    SPATE_CO_TRY(const ClientId client, decode_fence_key(entry.key));
    SPATE_CO_TRY(const FenceRecord record, decode_fence(entry.value));
    fences.push_back({client, record.lowest_epoch});
  }
  co_return fences;
}

job::Task<Result<void>> store_fences(Parts& parts, std::span<const wire::ClientFence> fences) {
  Result<void> done = Errc::kConflict;
  for (int i = 0; i < kMaxConflicts && done.code() == Errc::kConflict; ++i) {
    job::Transaction transaction = parts.keyval.begin();
    for (const wire::ClientFence& fence : fences) {
      const Bytes key = fence_key(fence.client);
      SPATE_CO_TRY(const std::optional<Bytes> there, co_await get(transaction, key));
      if (there) {  // keeps a fence of the same or a higher epoch
        SPATE_CO_TRY(const FenceRecord record, decode_fence(*there));
        if (record.lowest_epoch >= fence.lowest_epoch) continue;
      }
      transaction.put(key, encode(FenceRecord{fence.lowest_epoch, parts.now()}));
    }
    done = co_await commit(transaction, trove::Durability::kProcess);
  }
  co_return done;
}

job::Task<Result<void>> store_fences_known(Parts& parts) {
  job::Transaction transaction = parts.keyval.begin();
  transaction.erase(joining_key());
  auto done = co_await commit(transaction, trove::Durability::kMachine);
  co_return done;
}

job::Task<Result<void>> purge_fences(Parts& parts, WallTime before) {
  job::Transaction transaction = parts.keyval.begin();
  trove::KeyRange range;
  range.begin = fence_key(ClientId(parts.fence_looked_at.value + 1));
  range.end = fence_after_all();
  range.limit = kPurgeBatch;
  const trove::KeyvalCompletion found = co_await transaction.range(range);
  if (found.status != Errc::kOk) co_return found.status;
  bool any = false;
  for (const trove::KeyValue& entry : found.entries) {
    const auto client = decode_fence_key(entry.key);
    const auto record = decode_fence(entry.value);
    if (client) parts.fence_looked_at = *client;
    if (!record || record->made > before) continue;
    transaction.erase(entry.key);
    any = true;
  }
  if (!found.more) parts.fence_looked_at = ClientId();
  if (!any) co_return Result<void>();
  auto done = co_await commit(transaction, trove::Durability::kProcess);
  if (!done && done.code() != Errc::kConflict) co_return done;
  co_return Result<void>();
}

}  // namespace spate::io
