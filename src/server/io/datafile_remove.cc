// SPDX-License-Identifier: Apache-2.0
// Removal of datafiles, for a meta server. The tombstones come first: whatever happens after, no write brings one back.
#include "server/io/checks.h"
#include "server/io/io_service.h"
#include "server/io/parallel.h"
#include "server/io/storage.h"
#include "server/io/store.h"

namespace spate::io {
namespace {

constexpr std::size_t kMaxRemovals = 4096;

/// One removal under way. Lives on the handler's frame.
struct RemoveWork {
  Parts& parts;
  WallTime until;
  std::vector<DatafileKey> keys;
  std::vector<Target*> targets;
  flow::Asker asker;
  ActiveRequest& active;
};

job::Task<Result<void>> remove_one(RemoveWork& work, std::size_t index) {
  const DatafileTable::Use datafile = work.parts.datafiles.use(work.keys[index]);
  datafile->tombstone_known = true;
  datafile->tombstone = datafile->tombstone ? std::max(*datafile->tombstone, work.until) : work.until;
  // Writes that had begun before the tombstone was there end first.
  SPATE_CO_TRY(const DatafileLock::Hold hold, co_await datafile->lock.exclusive(work.active.token()));
  trove::BytestreamRequest request;
  request.op = trove::BytestreamOp::kRemove;
  request.id = work.keys[index].id;
  SPATE_CO_TRY(std::ignore, co_await run_op(*work.targets[index], work.asker, request, work.active.token()));
  work.parts.datafiles.close(*datafile);
  co_return Result<void>();
}

}  // namespace

job::Task<Result<wire::DatafileRemoveReply>> IoService::datafile_remove(rpc::Call& call,
                                                                        wire::DatafileRemoveRequest request) {
  if (request.datafiles.size() > kMaxRemovals)
    co_return Error(Errc::kInvalidArgument, "at most 4096 datafiles a request");
  ActiveRequest active(nullptr, call.peer->incarnation, epoch_of(call), call.stop);
  RemoveWork work{*parts_, request.tombstone_until, {}, {}, asker_of(call, nullptr), active};
  for (const wire::DatafileRef& ref : request.datafiles) {
    if (!ref.handle) co_return Error(Errc::kInvalidArgument, "a request needs a handle");
    SPATE_CO_TRY(Target* const target, find_target(*parts_, ref.slot.target));
    work.targets.push_back(target);
    work.keys.push_back({ref.slot.target, {ref.handle, ref.slot.slot}});
  }
  if (work.keys.empty()) co_return wire::Empty();
  SPATE_CO_TRY(std::ignore, co_await store_tombstones(*parts_, work.keys, work.until));
  std::vector<job::Task<Result<void>>> tasks;
  for (std::size_t i = 0; i < work.keys.size(); ++i) tasks.push_back(remove_one(work, i));
  SPATE_CO_TRY(std::ignore, co_await run_all(parts_->executor, std::move(tasks), active.stop()));
  co_return wire::Empty();
}

}  // namespace spate::io
