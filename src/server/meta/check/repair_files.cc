// SPDX-License-Identifier: Apache-2.0
// Repairs of opens, intents, sizes, and of records without an object.
#include "job/deadline.h"
#include "server/meta/check/repair.h"
#include "server/meta/core/core.h"
#include "server/meta/names/sizes.h"

namespace spate::meta {
namespace {

constexpr Duration kTruncateTimeout = std::chrono::seconds(5);
constexpr std::size_t kErasedAtOnce = 1000;
constexpr std::size_t kXattrsMendedAtOnce = 64;  // each may have 64 KiB

job::Task<Result<bool>> is_there(Operation& operation, StoreKey key) {
  const auto mode = operation.kind() == Operation::Kind::kRead ? trove::ReadMode::kSnapshot : trove::ReadMode::kChecked;
  const auto read = co_await operation.store().get(key, mode);
  if (read.status != Errc::kOk) co_return read.status;
  co_return read.value.has_value();
}

/// The finding's file, locked as opens and closes lock it.
job::Task<Result<std::optional<InodeRecord>>> file_of(Repair& repair) {
  SPATE_CO_TRY(std::ignore, repair.lock({repair.finding.handle}));
  SPATE_CO_TRY(InodeState inode, co_await inode_state(repair.operation, repair.finding.handle));
  if (!inode.readable() || !inode.record.is_regular()) co_return std::optional<InodeRecord>();
  co_return std::move(inode.record);
}

job::Task<Result<void>> wait_a_while(MetaCore& core, Handle handle, job::StopToken stop) {
  job::DeadlineScope scope(core.executor(), core.executor().now() + kTruncateTimeout, stop);
  std::ignore = co_await core.parts().intent_recovery->settled(handle, scope.token());
  co_return Result<void>();
}

/// After the commit, waits until the io servers have been asked, for a bounded time. Intent recovery goes on in the
/// background.
void wait_for_recovery(Operation& operation, Handle handle) {
  const job::StopToken stop = operation.call().stop;
  operation.deferred().finish_with(
      [core = &operation.core(), handle, stop] { return wait_a_while(*core, handle, stop); });
}

/// Leaves the size and mtime to the datafiles, as after the last close. Puts the inode.
void ask_datafiles(Operation& operation, InodeRecord& inode) {
  ++inode.attributes.version;
  leave_unsettled(operation, inode);
  operation.put(inode);
  wait_for_recovery(operation, inode.handle());
}

/// Erases at most `limit` records of `range`; the next look finds the rest.
job::Task<Result<std::size_t>> erase_some(Repair& repair, trove::KeyRange range, std::size_t limit) {
  SPATE_CO_TRY(const auto page, co_await read_page(repair.operation, std::move(range), limit));
  if (repair.apply) {
    for (const trove::KeyValue& item : page.entries) repair.operation.erase(item.key);
  }
  co_return page.entries.size();
}

}  // namespace

job::Task<Result<void>> mend_open_count(Repair& repair) {
  SPATE_CO_TRY(auto inode, co_await file_of(repair));
  if (!inode) co_return {};
  SPATE_CO_TRY(const std::uint64_t writers, co_await count_writers(repair.operation, inode->handle()));
  if (writers == inode->write_opens) co_return {};
  const std::string counted = std::to_string(writers) + " opens for writing are counted now";
  if (writers > UINT32_MAX || !repair.confirm(counted)) co_return {};
  if (inode->write_opens == 0) ++inode->write_generation;
  inode->write_opens = static_cast<std::uint32_t>(writers);
  inode->writers = 0;  // ask the datafiles at the close, since the writers' own reports are no longer reliable
  if (writers == 0) {
    ask_datafiles(repair.operation, *inode);
    co_return {};
  }
  inode->attributes.size_known = false;
  ++inode->attributes.version;
  repair.operation.put(*inode);
  co_return {};
}

job::Task<Result<void>> mend_size_not_asked(Repair& repair) {
  SPATE_CO_TRY(auto inode, co_await file_of(repair));
  if (!inode) co_return {};
  const bool writing = inode->write_opens > 0;
  SPATE_CO_TRY(const bool asked_for, co_await is_there(repair.operation, unsettled_key(inode->handle())));
  const bool good = inode->attributes.size_known ? !writing : writing || asked_for;
  if (good) co_return {};
  if (writing) {
    if (!repair.confirm("its size is asked of the datafiles while it is open for writing")) co_return {};
    inode->attributes.size_known = false;
    ++inode->attributes.version;
    repair.operation.put(*inode);
    co_return {};
  }
  if (repair.confirm("its size was asked of the datafiles")) ask_datafiles(repair.operation, *inode);
  co_return {};
}

job::Task<Result<void>> mend_truncate_without_intent(Repair& repair) {
  SPATE_CO_TRY(auto inode, co_await file_of(repair));
  if (!inode || !inode->truncating) co_return {};
  SPATE_CO_TRY(const bool intended, co_await is_there(repair.operation, truncate_key(inode->handle())));
  if (intended) co_return {};
  if (!repair.confirm("it can be opened again, with the size that its datafiles have")) co_return {};
  inode->truncating = false;
  if (inode->write_opens == 0) {
    ask_datafiles(repair.operation, *inode);
    co_return {};
  }
  ++inode->attributes.version;
  repair.operation.put(*inode);
  co_return {};
}

job::Task<Result<void>> mend_stray_intent(Repair& repair) {
  Operation& operation = repair.operation;
  const Handle handle = repair.finding.handle;
  SPATE_CO_TRY(std::ignore, repair.lock({handle}));
  SPATE_CO_TRY(const auto intent, co_await operation.get<TruncateIntent>(truncate_key(handle)));
  if (!intent) co_return {};
  SPATE_CO_TRY(InodeState inode, co_await inode_state(operation, handle));
  if (inode.status == InodeState::Status::kUnreadable || (inode.readable() && inode.record.truncating)) co_return {};
  // Finishes the last truncation of the file. Drops an older one, and one whose file is gone.
  if (inode.readable() && inode.record.truncate_generation == intent->generation) {
    if (!repair.confirm("the truncation was finished")) co_return {};
    inode.record.truncating = true;
    ++inode.record.attributes.version;
    operation.put(inode.record);
    wait_for_recovery(operation, handle);
    co_return {};
  }
  if (repair.confirm("it was dropped")) operation.erase(truncate_key(handle));
  co_return {};
}

job::Task<Result<void>> mend_stray_unsettled(Repair& repair) {
  Operation& operation = repair.operation;
  const Handle handle = repair.finding.handle;
  SPATE_CO_TRY(const bool there, co_await is_there(operation, unsettled_key(handle)));
  SPATE_CO_TRY(const InodeState inode, co_await inode_state(operation, handle));
  const bool waits = inode.readable() && !inode.record.attributes.size_known && inode.record.write_opens == 0;
  if (!there || waits || inode.status == InodeState::Status::kUnreadable) co_return {};
  if (repair.confirm("it was dropped")) operation.erase(unsettled_key(handle));
  co_return {};
}

job::Task<Result<void>> mend_stray_open(Repair& repair) {
  Operation& operation = repair.operation;
  const wire::Finding& finding = repair.finding;
  const StoreKey key = open_key(finding.handle, finding.client, finding.epoch);
  SPATE_CO_TRY(const bool there, co_await is_there(operation, key));
  SPATE_CO_TRY(const InodeState inode, co_await inode_state(operation, finding.handle));
  if (!there || !inode.missing() || !repair.confirm("it was dropped")) co_return {};
  operation.erase(key);
  operation.deferred().when_committed([opens = operation.core().parts().opens, client = finding.client,
                                       handle = finding.handle] { opens->dropped(client, handle); });
  co_return {};
}

job::Task<Result<void>> mend_stray_xattr(Repair& repair) {
  const Handle handle = repair.finding.handle;
  SPATE_CO_TRY(const InodeState inode, co_await inode_state(repair.operation, handle));
  if (!inode.missing()) co_return {};
  SPATE_CO_TRY(const std::size_t erased, co_await erase_some(repair, xattrs_of(handle), kXattrsMendedAtOnce));
  if (erased > 0) repair.confirm(std::to_string(erased) + " attributes");
  co_return {};
}

job::Task<Result<void>> mend_stray_answer(Repair& repair) {
  const ClientId client = repair.finding.client;
  SPATE_CO_TRY(const bool session, co_await is_there(repair.operation, session_key(client)));
  if (session) co_return {};
  SPATE_CO_TRY(const std::size_t erased, co_await erase_some(repair, answers_of(client), kErasedAtOnce));
  if (erased > 0) repair.confirm(std::to_string(erased) + " answers");
  co_return {};
}

job::Task<Result<void>> mend_removal_of_live_file(Repair& repair) {
  Operation& operation = repair.operation;
  const StoreKey key = removal_key(repair.finding.handle);
  SPATE_CO_TRY(const bool there, co_await is_there(operation, key));
  SPATE_CO_TRY(const InodeState inode, co_await inode_state(operation, repair.finding.handle));
  if (!there || inode.missing() || !repair.confirm("the file stays, its removal was dropped")) co_return {};
  operation.erase(key);
  operation.deferred().when_committed([removals = operation.core().parts().removals] { removals->dropped(); });
  co_return {};
}

job::Task<Result<void>> mend_wrong_size(Repair& repair) {
  SPATE_CO_TRY(auto inode, co_await file_of(repair));
  if (!inode) co_return {};
  const Attributes& a = inode->attributes;
  if (a.version != repair.finding.version) {
    repair.changed();
    co_return {};
  }
  if (!a.size_known || inode->truncating || inode->write_opens > 0) co_return {};
  if (repair.confirm("its size was asked of the datafiles")) ask_datafiles(repair.operation, *inode);
  co_return {};
}

}  // namespace spate::meta
