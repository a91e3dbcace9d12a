// SPDX-License-Identifier: Apache-2.0
// Removal of datafiles, for a meta server. First it makes the tombstones durable. After that no write can bring a
// datafile back, and a datafile that a crash of the machine brings back is removed again.
#include "job/deadline.h"
#include "job/run_all.h"
#include "server/io/checks.h"
#include "server/io/io_service.h"
#include "server/io/mirror/change_at.h"
#include "server/io/removal.h"
#include "server/io/store.h"
#include "server/io/target.h"

namespace spate::io {
namespace {

constexpr std::size_t kMaxRemovals = 4096;

constexpr std::size_t kRedoBatch = 256;

/// How much longer a removal waits for its datafile than the recall of a lease may take. Shorter than the deadline of a
/// meta server's request, so that the answer arrives even if one datafile stays in use.
constexpr Duration kTimeoutAfterRecall = std::chrono::seconds(1);

/// Datafiles whose tombstones are stored. Outlives the tasks that work on it.
struct RemoveWork {
  Parts& parts;
  std::vector<DatafileKey> keys;
  std::vector<WallTime> until;  // for each datafile
  std::vector<Place> places;    // for each datafile
  flow::Asker asker;
  job::StopToken stop;
  Result<void> failure;  // the first failure at a datafile
};

/// Waits for requests that began before the tombstone was stored. They have been stopped; kTryAgain if they take too
/// long.
job::Task<Result<DatafileLock::Hold>> lock_removed(RemoveWork& work, DatafileTable::Entry& datafile) {
  const MonoTime until = work.parts.leases.deadline() + kTimeoutAfterRecall;
  job::DeadlineScope scope(work.parts.executor, until, work.stop);
  auto hold = co_await work.parts.leases.lock(datafile, DatafileLock::Mode::kExclusive, ClientId(), scope.token());
  if (hold.code() == Errc::kTimeout && !work.stop.stopped())
    co_return Error::told(Errc::kTryAgain, "a datafile that is to be removed is in use");
  co_return hold;
}

job::Task<Result<void>> remove_one(RemoveWork& work, std::size_t index) {
  const DatafileTable::Use datafile = work.parts.datafiles.use(work.keys[index]);
  const WallTime until = work.until[index];
  datafile->tombstone_known = true;
  datafile->tombstone = datafile->tombstone ? std::max(*datafile->tombstone, until) : until;
  datafile->removal.request_stop(Errc::kStaleHandle);
  work.parts.leases.abandon(datafile->key);
  SPATE_CO_TRY(const DatafileLock::Hold hold, co_await lock_removed(work, *datafile));
  trove::BytestreamRequest request;
  request.op = trove::BytestreamOp::kRemove;
  request.id = work.keys[index].id;
  MirrorExtras extras;
  extras.tombstone_until = until;
  SPATE_CO_TRY(std::ignore, co_await change_at(work.places[index], request, extras, work.asker, work.stop));
  work.parts.datafiles.close(*datafile);
  co_return Result<void>();
}

/// Never fails: a datafile that cannot be removed must not prevent the removal of the others.
job::Task<Result<void>> try_to_remove(RemoveWork& work, std::size_t index) {
  auto removed = co_await remove_one(work, index);
  if (!removed && work.failure) work.failure = std::move(removed);
  co_return Result<void>();
}

/// Tries to remove each datafile; yields the first failure.
job::Task<Result<void>> remove_all(RemoveWork& work, job::StopSource& siblings) {
  std::vector<job::Task<Result<void>>> tasks;
  for (std::size_t i = 0; i < work.keys.size(); ++i) tasks.push_back(try_to_remove(work, i));
  SPATE_CO_TRY(std::ignore, co_await job::run_all(work.parts.executor, std::move(tasks), siblings));
  co_return std::move(work.failure);
}

}  // namespace

job::Task<Result<wire::DatafileRemoveReply>> IoService::datafile_remove(rpc::Call& call,
                                                                        wire::DatafileRemoveRequest request) {
  if (request.datafiles.size() > kMaxRemovals)
    co_return Error::told(Errc::kInvalidArgument, "at most 4096 datafiles a request");
  ActiveRequest active(nullptr, call.peer->incarnation, epoch_of(call), call.stop);
  RemoveWork work{*parts_, {}, {}, {}, asker_of(call, nullptr), active.token(), {}};
  for (const wire::DatafileRef& ref : request.datafiles) {
    if (!ref.handle) co_return Error::told(Errc::kInvalidArgument, "a request needs a handle");
    SPATE_CO_TRY(Place place, find_place(*parts_, ref.slot.target));
    work.keys.push_back({place.target->description.id, {ref.handle, ref.slot.slot}});
    work.places.push_back(std::move(place));
    work.until.push_back(request.tombstone_until);
  }
  if (work.keys.empty()) co_return wire::Empty();
  SPATE_CO_TRY(std::ignore, co_await store_tombstones(*parts_, work.keys, request.tombstone_until));
  SPATE_CO_TRY(std::ignore, co_await remove_all(work, active.stop()));
  co_return wire::Empty();
}

job::Task<Result<void>> redo_removals(Parts& parts) {
  if (parts.options.boot == 0 || parts.removals_redone) co_return Result<void>();
  SPATE_CO_TRY(const std::uint64_t redone_at, co_await load_redone_boot(parts));
  if (redone_at == parts.options.boot) {
    parts.removals_redone = true;
    co_return Result<void>();
  }
  TombstonePage page;
  Result<void> failure;
  do {
    // This and later pages have not been repeated: the next process has to do it.
    if (parts.stopping.stopped()) co_return Errc::kCancelled;
    SPATE_CO_TRY(page, co_await list_tombstones(parts, std::move(page.next), kRedoBatch));
    job::DeadlineScope stop(parts.executor, MonoTime::never(), parts.stopping);
    RemoveWork work{parts, {}, {}, {}, {ClientId(), wire::Priority::kBackground}, stop.token(), {}};
    for (const TombstoneEnd& tombstone : page.tombstones) {
      const auto target = find_target(parts, tombstone.datafile.target);
      if (!target) continue;  // the target has moved to another server: its disk is not here
      work.keys.push_back(tombstone.datafile);
      work.until.push_back(tombstone.until);
      work.places.push_back(Place{*target, nullptr});
    }
    auto removed = co_await remove_all(work, stop.source());
    if (!removed && failure) failure = std::move(removed);
  } while (!page.next.empty());
  if (!failure) co_return failure;
  SPATE_CO_TRY(std::ignore, co_await store_redone_boot(parts, parts.options.boot));
  parts.removals_redone = true;
  co_return Result<void>();
}

}  // namespace spate::io
