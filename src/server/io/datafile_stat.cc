// SPDX-License-Identifier: Apache-2.0
// Stat of datafiles: clients compute a file's size and times from it.
#include "job/run_all.h"
#include "server/io/checks.h"
#include "server/io/io_service.h"
#include "server/io/store.h"
#include "server/io/target.h"

namespace spate::io {
namespace {

/// One stat under way. Lives on the handler's frame.
struct StatWork {
  Parts& parts;
  flow::Asker asker;
  ActiveRequest& active;
};

job::Task<Result<void>> stat_slot(StatWork& work, Target& target, DatafileId id, wire::DatafileState& state) {
  SPATE_CO_TRY(std::ignore, co_await work.parts.leases.note({target.description.id, id}, work.active.token()));
  SPATE_CO_TRY(const auto stat, co_await stat_datafile(target, work.asker, id, work.active.token()));
  state = state_of(stat);
  co_return Result<void>();
}

}  // namespace

job::Task<Result<wire::DatafileStatReply>> IoService::datafile_stat(rpc::Call& call,
                                                                    wire::DatafileStatRequest request) {
  // stat(2) needs no open file, only the right to look up the name. So this request needs no capability. This server
  // does not know whether the name is one that a key for one directory leads to: the meta server shows such sizes.
  if (call.peer->is_confined() && !call.header.capability)
    co_return Error::told(Errc::kPermissionDenied, "permission denied: the user's key is for one directory");
  SPATE_CO_TRY(ClientTable::Entry* const caller,
               authorize(*parts_, call, request.handle, Rights::kNone, CapabilityNeed::kOptional));
  SPATE_CO_TRY(const std::vector<Place> places, find_places(*parts_, call, request.slots));
  ActiveRequest active(caller, call.peer->incarnation, epoch_of(call), call.stop);
  StatWork work{*parts_, asker_of(call, caller), active};
  wire::DatafileStatReply reply;
  reply.datafiles.resize(places.size());
  std::vector<job::Task<Result<void>>> tasks;
  for (std::size_t i = 0; i < places.size(); ++i) {
    tasks.push_back(stat_slot(work, *places[i].target, {request.handle, request.slots[i].slot}, reply.datafiles[i]));
  }
  SPATE_CO_TRY(std::ignore, co_await job::run_all(parts_->executor, std::move(tasks), active.stop()));
  // For a client the file exists, since the meta server has just told it so. A missing datafile may then be a removed
  // one. (A meta server also asks about files that it removes.)
  if (caller != nullptr) {
    SPATE_CO_TRY(std::ignore,
                 co_await check_missing_alive(*parts_, request.handle, places, request.slots, reply.datafiles));
  }
  SPATE_CO_TRY(std::ignore, check_places(places));
  co_return reply;
}

}  // namespace spate::io
