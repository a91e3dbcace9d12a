// SPDX-License-Identifier: Apache-2.0
#include "server/io/sync.h"

#include "log/fields.h"
#include "log/log.h"
#include "server/io/store.h"
#include "server/io/target.h"

namespace spate::io {
namespace {

/// Returns the completion of the sync, which may hold an error of write-back. Fails if the sync could not begin.
job::Task<Result<trove::BytestreamCompletion>> run_sync(Target& target, DatafileId id, job::StopToken stop) {
  flow::SchedulerRequest place;
  place.datafile = id;
  SPATE_CO_TRY(const auto ticket, co_await target.device.scheduler().admit(place, stop));
  trove::BytestreamRequest request;
  request.op = trove::BytestreamOp::kSync;
  request.id = id;
  trove::BytestreamCompletion done = co_await target.device.storage().run(request);
  co_return std::move(done);
}

/// Records that any write may be lost, before it is known which. So a process that is killed now leaves at least this
/// record.
job::Task<Result<void>> record_loss(Parts& parts, DatafileTable::Entry& datafile) {
  parts.unrecorded_losses.try_emplace(datafile.key, DatafileTable::Use(datafile));
  SPATE_CO_TRY(std::ignore, co_await store_loss(parts, datafile.key, LossRecord::kUnsettled));
  parts.unrecorded_losses.erase(datafile.key);
  co_return Result<void>();
}

/// Finds the change counter up to which writes may be lost. Once the exclusive lock is held, all changes that were
/// under way when write-back failed have ended. Later changes have new dirty pages and higher counters.
job::Task<Result<std::uint64_t>> settle_loss(Parts& parts, Target& target, DatafileTable::Entry& datafile,
                                             job::StopToken stop) {
  SPATE_CO_TRY(const DatafileLock::Hold hold,
               co_await parts.leases.lock(datafile, DatafileLock::Mode::kExclusive, ClientId(), stop));
  SPATE_CO_TRY(const auto stat, co_await stat_datafile(target, ClientId(), datafile.key.id, stop));
  SPATE_CO_TRY(std::ignore, co_await store_loss(parts, datafile.key, stat.change_counter));
  SPATE_LOG("server", error,
            "write-back has failed, writes that were not synced may be lost target={} handle={} slot={} up_to={}",
            datafile.key.target, datafile.key.id.handle, datafile.key.id.slot, stat.change_counter);
  co_return stat.change_counter;
}

/// The caller holds the turn. After an error of write-back it syncs once more: if that succeeds, everything that was
/// not lost (sizes, holes, other pages) is durable.
job::Task<Result<void>> sync_now(Parts& parts, Target& target, DatafileTable::Entry& datafile, job::StopToken stop) {
  const std::uint64_t number = ++datafile.syncs_begun;
  // The truncate recorded before the sync is durable after it. One that comes meanwhile waits for the next sync.
  SPATE_CO_TRY(const std::optional<Bytes> truncate, co_await load_truncate_record(parts, datafile.key));
  Errc status = Errc::kIoError;
  for (int tries = 0; tries < 2; ++tries) {
    SPATE_CO_TRY(const trove::BytestreamCompletion done, co_await run_sync(target, datafile.key.id, stop));
    status = done.status;
    if (status == Errc::kOk) break;
    if (status == Errc::kTryAgain) co_return status;  // the datafile could not be opened: no sync was tried
    SPATE_LOG("server", error, "sync failed target={} handle={} slot={} error={}", datafile.key.target,
              datafile.key.id.handle, datafile.key.id.slot, name(status));
    datafile.lossy_sync = number;
    SPATE_CO_TRY(std::ignore, co_await record_loss(parts, datafile));
  }
  if (status != Errc::kOk) co_return status;
  if (truncate) {
    SPATE_CO_TRY(std::ignore, co_await truncate_is_durable(parts, datafile.key, *truncate));
  }
  datafile.synced = number;
  co_return Result<void>();
}

}  // namespace

job::Task<Result<SyncOutcome>> sync_datafile(Parts& parts, Target& target, DatafileId id, job::StopToken stop) {
  const DatafileTable::Use datafile = parts.datafiles.use({target.description.id, id});
  const std::uint64_t enough = datafile->syncs_begun + 1;
  SPATE_CO_TRY(const auto turn, co_await datafile->sync_turn.acquire(1, stop));
  // A sync that began after this call is enough.
  if (datafile->synced < enough) {
    SPATE_CO_TRY(std::ignore, co_await sync_now(parts, target, *datafile, stop));
  }
  if (parts.unrecorded_losses.contains(datafile->key)) {
    SPATE_CO_TRY(std::ignore, co_await record_loss(parts, *datafile));
  }
  SyncOutcome outcome;
  SPATE_CO_TRY(outcome.lost, co_await load_loss(parts, datafile->key));
  if (outcome.lost == LossRecord::kUnsettled) {
    SPATE_CO_TRY(outcome.lost, co_await settle_loss(parts, target, *datafile, stop));
  }
  outcome.lossy = datafile->lossy_sync >= enough;
  co_return outcome;
}

}  // namespace spate::io
