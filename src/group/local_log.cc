// SPDX-License-Identifier: Apache-2.0
#include "group/local_log.h"

#include "base/codec.h"
#include "model/defect.h"
#include "trove/log_entry.h"

namespace spate::group {
namespace {

using trove::GroupKey;
using trove::LogPosition;
using trove::ReadMode;

constexpr std::size_t kWipedAtOnce = 512;
constexpr std::size_t kReadAtOnce = 64;

Bytes number(std::uint64_t value) {
  Bytes out;
  Encoder encoder(out);
  encoder.u64(value);
  return out;
}

Error failed(Errc code) { return {code, "log of the group"}; }

}  // namespace

LocalLog::LocalLog(job::KeyvalContext& store, trove::ReplicatedKeyval& keyval, std::uint64_t boot)
    : store_(store), keyval_(keyval), boot_(boot), turn_(store.executor(), 1) {}

job::Task<Result<void>> LocalLog::open() {
  job::Transaction read = begin();
  const Bytes position_key = trove::group_key(GroupKey::kPosition);
  const Bytes boot_key = trove::group_key(GroupKey::kBoot);
  const Bytes incomplete_key = trove::group_key(GroupKey::kIncomplete);
  const auto position = co_await read.get(position_key, ReadMode::kSnapshot);
  if (position.status != Errc::kOk) co_return failed(position.status);
  const auto boot = co_await read.get(boot_key, ReadMode::kSnapshot);
  if (boot.status != Errc::kOk) co_return failed(boot.status);
  const auto incomplete = co_await read.get(incomplete_key, ReadMode::kSnapshot);
  if (incomplete.status != Errc::kOk) co_return failed(incomplete.status);
  if (position.value) {
    SPATE_CO_TRY(position_, trove::decode_position(*position.value));
  }
  incomplete_ = incomplete.value.has_value();
  is_new_ = !boot.value && !position.value && !incomplete_;
  tail_unknown_ = !boot.value || *boot.value != number(boot_);
  if (planted(Defect::kUnknownTailLeads)) tail_unknown_ = false;
  co_return Result<void>();
}

job::Task<Result<void>> LocalLog::tail_is_known() {
  const auto turn = co_await turn_.acquire(1);
  job::Transaction write = begin();
  const Bytes boot_key = trove::group_key(GroupKey::kBoot);
  const Bytes boot = number(boot_);
  write.put(boot_key, boot);
  // Durable in a new store, so that a store that has been in use is never taken for a new or a lost one.
  const auto done = co_await write.commit(is_new_ ? trove::Durability::kMachine : trove::Durability::kProcess);
  if (done.status != Errc::kOk) co_return failed(done.status);
  tail_unknown_ = false;
  is_new_ = false;
  co_return Result<void>();
}

job::Task<Result<std::optional<std::uint64_t>>> LocalLog::epoch_of(std::uint64_t index) {
  using Epoch = std::optional<std::uint64_t>;
  if (index == 0) co_return Epoch(0);
  if (!keyval_.leading() && index == position_.last.index) co_return Epoch(position_.last.epoch);
  job::Transaction read = begin();
  const Bytes key = trove::entry_key(index);
  const auto found = co_await read.get(key, ReadMode::kSnapshot);
  if (found.status != Errc::kOk) co_return failed(found.status);
  if (!found.value) co_return Epoch();
  co_return Epoch(trove::position_of_entry(*found.value).epoch);
}

job::Task<Result<std::vector<EntryRef>>> LocalLog::entries_from(std::uint64_t index, std::size_t bytes) {
  job::Transaction read = begin();
  trove::KeyRange range;
  range.begin = trove::entry_key(index);
  range.end = trove::entry_key(UINT64_MAX);
  range.limit = kReadAtOnce;
  range.mode = ReadMode::kSnapshot;
  auto found = co_await read.range(range);
  if (found.status != Errc::kOk) co_return failed(found.status);
  std::vector<EntryRef> out;
  std::size_t size = 0;
  for (trove::KeyValue& each : found.entries) {
    if (size > bytes) break;
    size += each.value.size();
    out.push_back(std::make_shared<const Bytes>(std::move(each.value)));
  }
  co_return out;
}

job::Task<Result<bool>> LocalLog::matches(LogPosition position) {
  if (incomplete_ || position.index > position_.last.index) co_return false;
  if (planted(Defect::kLogNotCut)) co_return true;
  SPATE_CO_TRY(const auto epoch, co_await epoch_of(position.index));
  co_return epoch && *epoch == position.epoch;
}

job::Task<Result<bool>> LocalLog::append(LogPosition position, std::vector<EntryRef> entries) {
  const auto turn = co_await turn_.acquire(1);
  auto appended = co_await append_in_turn(position, entries);
  co_return appended;
}

Result<void> LocalLog::put_entry(job::Transaction& to, const Bytes& bytes, LogPosition at) {
  SPATE_TRY(const trove::LogEntry entry, trove::decode_entry(bytes));
  if (entry.at != at) return failed(Errc::kCorrupt);
  for (const trove::BatchWrite& write : entry.writes) {
    if (write.value) {
      to.put(write.key, *write.value);
    } else {
      to.erase(write.key);
    }
  }
  to.put(trove::entry_key(at.index), bytes);
  return {};
}

job::Task<Result<bool>> LocalLog::append_in_turn(LogPosition position, const std::vector<EntryRef>& entries) {
  SPATE_CO_TRY(const bool fits, co_await matches(position));
  if (!fits) co_return false;
  job::Transaction write = begin();
  trove::PositionRecord next = position_;
  bool any = false;
  std::uint64_t index = position.index;
  for (const EntryRef& entry : entries) {
    if (entry->size() < sizeof(LogPosition)) co_return failed(Errc::kCorrupt);
    const LogPosition at = trove::position_of_entry(*entry);
    if (at.index != ++index) co_return failed(Errc::kCorrupt);
    if (at.index <= position_.last.index) {
      SPATE_CO_TRY(const bool same, co_await matches(at));
      // The records already contain an entry that no other member has. Only a copy can undo its changes.
      if (!same) co_return false;
      if (!planted(Defect::kLogNotCut)) continue;
    }
    SPATE_CO_TRY(std::ignore, put_entry(write, *entry, at));
    next.last = at;
    any = true;
    for (int i = 0; i < 2 && at.index - next.first >= keyval_.kept_entries(); ++i) {
      write.erase(trove::entry_key(next.first++));
    }
  }
  if (!any) co_return true;
  const Bytes position_key = trove::group_key(GroupKey::kPosition);
  const Bytes record = trove::encode_position(next);
  write.put(position_key, record);
  const auto done = co_await write.commit(trove::Durability::kProcess);
  if (done.status != Errc::kOk) co_return failed(done.status);
  position_ = next;
  co_return true;
}

job::Task<Result<std::uint64_t>> LocalLog::sync() {
  const std::uint64_t index = keyval_.leading() ? keyval_.last().index : position_.last.index;
  auto post = [keyval = &keyval_](void* user, trove::KeyvalCompletion& done) {
    return keyval->post_local_sync(user, done);
  };
  job::Transaction::Awaiter<decltype(post)> awaiter(store_, post);
  const auto done = co_await awaiter;
  if (done.status != Errc::kOk) co_return failed(done.status);
  co_return index;
}

job::Task<void> LocalLog::settle() { std::ignore = co_await turn_.acquire(1); }

job::Task<Result<void>> LocalLog::begin_copy() {
  const auto turn = co_await turn_.acquire(1);
  incomplete_ = true;
  {
    job::Transaction mark = begin();
    const Bytes key = trove::group_key(GroupKey::kIncomplete);
    mark.put(key, {});
    const auto done = co_await mark.commit(trove::Durability::kMachine);
    if (done.status != Errc::kOk) co_return failed(done.status);
  }
  position_ = {};
  for (bool more = true; more;) {
    SPATE_CO_TRY(more, co_await wipe_some());
  }
  co_return Result<void>();
}

/// Erases some records. False: only the records of GroupKey::kIncomplete and kBoot are left.
job::Task<Result<bool>> LocalLog::wipe_some() {
  job::Transaction write = begin();
  trove::KeyRange range;
  range.end = {trove::kGroupKeys, std::byte{0xFF}};
  if (planted(Defect::kRecordsOutliveCut)) range.begin = {trove::kGroupKeys};
  range.limit = kWipedAtOnce;
  range.mode = ReadMode::kSnapshot;
  const auto found = co_await write.range(range);
  if (found.status != Errc::kOk) co_return failed(found.status);
  const Bytes mark = trove::group_key(GroupKey::kIncomplete);
  const Bytes boot = trove::group_key(GroupKey::kBoot);
  bool any = false;
  for (const trove::KeyValue& each : found.entries) {
    if (each.key == mark || each.key == boot) continue;
    write.erase(each.key);
    any = true;
  }
  if (!any) co_return false;
  const auto done = co_await write.commit(trove::Durability::kProcess);
  if (done.status != Errc::kOk) co_return failed(done.status);
  co_return true;
}

job::Task<Result<void>> LocalLog::add_page(std::vector<trove::KeyValue> page) {
  const auto turn = co_await turn_.acquire(1);
  if (!incomplete_) co_return failed(Errc::kConflict);
  job::Transaction write = begin();
  for (const trove::KeyValue& each : page) {
    if (!each.key.empty() && each.key.front() == trove::kGroupKeys) co_return failed(Errc::kCorrupt);
    write.put(each.key, each.value);
  }
  const auto done = co_await write.commit(trove::Durability::kProcess);
  if (done.status != Errc::kOk) co_return failed(done.status);
  co_return Result<void>();
}

job::Task<Result<void>> LocalLog::end_copy(LogPosition position) {
  const auto turn = co_await turn_.acquire(1);
  if (!incomplete_) co_return failed(Errc::kConflict);
  job::Transaction write = begin();
  const trove::PositionRecord next{position, position.index + 1};
  const Bytes position_key = trove::group_key(GroupKey::kPosition);
  const Bytes incomplete_key = trove::group_key(GroupKey::kIncomplete);
  const Bytes record = trove::encode_position(next);
  write.put(position_key, record);
  write.erase(incomplete_key);
  const auto done = co_await write.commit(trove::Durability::kProcess);
  if (done.status != Errc::kOk) co_return failed(done.status);
  position_ = next;
  incomplete_ = false;
  co_return Result<void>();
}

}  // namespace spate::group
