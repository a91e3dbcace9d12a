// SPDX-License-Identifier: Apache-2.0
// Sync of datafiles: every write, punch and truncate that has been answered survives a crash of the machine.
#include "server/io/checks.h"
#include "server/io/io_service.h"
#include "server/io/parallel.h"
#include "server/io/storage.h"
#include "server/io/store.h"

namespace spate::io {
namespace {

/// One sync under way. Lives on the handler's frame.
struct SyncWork {
  Parts& parts;
  flow::Asker asker;
  ActiveRequest& active;
  wire::DatafileSyncReply reply;
};

job::Task<Result<void>> sync_slot(SyncWork& work, Target& target, DatafileId id, wire::DatafileState& state) {
  SPATE_CO_TRY(std::ignore, co_await work.parts.leases.note({target.description.id, id}, work.active.token()));
  SPATE_CO_TRY(std::ignore, co_await sync_datafile(work.parts, target, id, work.active.token()));
  SPATE_CO_TRY(const auto stat, co_await stat_datafile(target, work.asker, id, work.active.token()));
  state = state_of(stat);
  co_return Result<void>();
}

}  // namespace

job::Task<Result<wire::DatafileSyncReply>> IoService::datafile_sync(rpc::Call& call,
                                                                    wire::DatafileSyncRequest request) {
  SPATE_CO_TRY(ClientTable::Entry* const caller,
               authorize(*parts_, call, request.handle, Rights::kNone, Need::kRequired));
  SPATE_CO_TRY(const std::vector<Target*> targets, find_targets(*parts_, request.slots));
  ActiveRequest active(caller, call.peer->incarnation, epoch_of(call), call.stop);
  SyncWork work{*parts_, asker_of(call, caller), active, {}};
  work.reply.datafiles.resize(targets.size());
  std::vector<job::Task<Result<void>>> tasks;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    tasks.push_back(sync_slot(work, *targets[i], {request.handle, request.slots[i].slot}, work.reply.datafiles[i]));
  }
  SPATE_CO_TRY(std::ignore, co_await run_all(parts_->executor, std::move(tasks), active.stop()));
  co_return std::move(work.reply);
}

}  // namespace spate::io
