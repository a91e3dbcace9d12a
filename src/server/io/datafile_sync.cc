// SPDX-License-Identifier: Apache-2.0
// Sync and flush of datafiles: every write, punch and truncate that has been answered survives a crash of the machine
// afterwards.
#include "job/run_all.h"
#include "server/io/checks.h"
#include "server/io/io_service.h"
#include "server/io/mirror/primary_term.h"
#include "server/io/sync.h"
#include "server/io/target.h"

namespace spate::io {
namespace {

/// One request under way. Lives on the handler's frame.
struct SyncWork {
  Parts& parts;
  flow::Asker asker;
  ActiveRequest& active;
};

struct Synced {
  wire::DatafileState state;
  SyncOutcome outcome;
};

job::Task<Result<void>> sync_own(SyncWork& work, Target& target, DatafileId id, SyncOutcome& outcome) {
  SPATE_CO_TRY(outcome, co_await sync_datafile(work.parts, target, id, work.active.token()));
  co_return Result<void>();
}

job::Task<Result<void>> sync_slot(SyncWork& work, Place place, DatafileId id, Synced& synced) {
  Target& target = *place.target;
  SPATE_CO_TRY(std::ignore, co_await work.parts.leases.note({target.description.id, id}, work.active.token()));
  // The disks of all members sync at the same time.
  std::vector<job::Task<Result<void>>> copies;
  if (place.term != nullptr) copies.push_back(place.term->sync_mirrors(id, work.asker.trace));
  copies.push_back(sync_own(work, target, id, synced.outcome));
  SPATE_CO_TRY(std::ignore, co_await job::run_all(work.parts.executor, std::move(copies)));
  SPATE_CO_TRY(const auto stat, co_await stat_datafile(target, work.asker, id, work.active.token()));
  synced.state = state_of(stat);
  co_return Result<void>();
}

/// Syncs all slots. The memory behind the span outlives the task.
job::Task<Result<std::vector<Synced>>> sync_slots(Parts& parts, const rpc::Call& call, Handle handle,
                                                  std::span<const wire::SlotRef> slots) {
  SPATE_CO_TRY(ClientTable::Entry* const caller,
               authorize(parts, call, handle, Rights::kNone, CapabilityNeed::kRequired));
  SPATE_CO_TRY(std::vector<Place> places, find_places(parts, call, slots));
  ActiveRequest active(caller, call.peer->incarnation, epoch_of(call), call.stop);
  SyncWork work{parts, asker_of(call, caller), active};
  std::vector<Synced> synced(places.size());
  std::vector<job::Task<Result<void>>> tasks;
  for (std::size_t i = 0; i < places.size(); ++i) {
    tasks.push_back(sync_slot(work, places[i], {handle, slots[i].slot}, synced[i]));
  }
  SPATE_CO_TRY(std::ignore, co_await job::run_all(parts.executor, std::move(tasks), active.stop()));
  SPATE_CO_TRY(std::ignore, check_places(places));
  co_return std::move(synced);
}

}  // namespace

job::Task<Result<wire::DatafileFlushReply>> IoService::datafile_flush(rpc::Call& call,
                                                                      wire::DatafileFlushRequest request) {
  SPATE_CO_TRY(const std::vector<Synced> synced, co_await sync_slots(*parts_, call, request.handle, request.slots));
  wire::DatafileFlushReply reply;
  for (const Synced& slot : synced) {
    reply.datafiles.push_back(slot.state);
    reply.lost.push_back(slot.outcome.lost);
  }
  co_return reply;
}

/// Serves clients that do not know datafile_flush. It reports lost writes to them as an error of the request.
job::Task<Result<wire::DatafileSyncReply>> IoService::datafile_sync(rpc::Call& call,
                                                                    wire::DatafileSyncRequest request) {
  SPATE_CO_TRY(const std::vector<Synced> synced, co_await sync_slots(*parts_, call, request.handle, request.slots));
  wire::DatafileSyncReply reply;
  for (const Synced& slot : synced) {
    if (slot.outcome.lossy) co_return Error(Errc::kIoError, "write-back has failed");
    reply.datafiles.push_back(slot.state);
  }
  co_return reply;
}

}  // namespace spate::io
