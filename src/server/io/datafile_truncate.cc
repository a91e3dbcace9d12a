// SPDX-License-Identifier: Apache-2.0
// Truncate of datafiles, for a meta server. Each generation is carried out once, after the writes before it and before
// those after it.
#include "job/run_all.h"
#include "server/io/checks.h"
#include "server/io/io_service.h"
#include "server/io/mirror/change_at.h"
#include "server/io/store.h"
#include "server/io/target.h"

namespace spate::io {
namespace {

/// One truncate under way. Lives on the handler's frame.
struct TruncateWork {
  Parts& parts;
  const wire::DatafileTruncateRequest& request;
  const std::vector<Place>& places;
  flow::Asker asker;
  ActiveRequest& active;
  std::vector<wire::DatafileState> states;
};

job::Task<Result<void>> cut(TruncateWork& work, const Place& place, DatafileTable::Entry& entry, std::uint64_t size) {
  SPATE_CO_TRY(const std::uint64_t done, co_await load_truncate(work.parts, entry.key));
  if (done >= work.request.truncate_generation) co_return Result<void>();
  trove::BytestreamRequest request;
  request.op = trove::BytestreamOp::kTruncate;
  request.id = entry.key.id;
  request.size = size;
  request.now = work.request.fs_time;
  MirrorExtras extras;
  extras.truncate_generation = work.request.truncate_generation;
  SPATE_CO_TRY(std::ignore, co_await change_at(place, request, extras, work.asker, work.active.token()));
  // A crash before this point repeats the truncate. That is harmless: the truncate has not been answered, so it seems
  // to have come later.
  auto stored = co_await store_truncate(work.parts, entry.key, work.request.truncate_generation);
  co_return stored;
}

job::Task<Result<void>> truncate_slot(TruncateWork& work, std::size_t index) {
  const Place& place = work.places[index];
  Target& target = *place.target;
  const DatafileId id{work.request.handle, work.request.slots[index].slot};
  const DatafileTable::Use datafile = work.parts.datafiles.use({target.description.id, id});
  SPATE_CO_TRY(const DatafileLock::Hold hold, co_await work.parts.leases.lock(*datafile, DatafileLock::Mode::kExclusive,
                                                                              ClientId(), work.active.token()));
  // A removed file has nothing to truncate, and must not come back.
  SPATE_CO_TRY(const bool removed, co_await is_removed(work.parts, *datafile));
  if (removed) co_return Result<void>();
  SPATE_CO_TRY(std::ignore, co_await cut(work, place, *datafile, work.request.sizes[index]));
  SPATE_CO_TRY(const auto stat, co_await stat_datafile(target, work.asker, id, work.active.token()));
  work.states[index] = state_of(stat);
  co_return Result<void>();
}

Result<void> check_request(const wire::DatafileTruncateRequest& request) {
  if (!request.handle) return Error::told(Errc::kInvalidArgument, "a request needs a handle");
  if (request.sizes.size() != request.slots.size())
    return Error::told(Errc::kProtocol, "as many sizes as slots are needed");
  if (request.truncate_generation == 0) return Error::told(Errc::kInvalidArgument, "truncate generations begin with 1");
  for (const std::uint64_t size : request.sizes) {
    if (size > kMaxFileBytes) return Errc::kFileTooBig;
  }
  return {};
}

}  // namespace

job::Task<Result<wire::DatafileTruncateReply>> IoService::datafile_truncate(rpc::Call& call,
                                                                            wire::DatafileTruncateRequest request) {
  SPATE_CO_TRY(std::ignore, check_request(request));
  SPATE_CO_TRY(const std::vector<Place> places, find_places(*parts_, call, request.slots));
  ActiveRequest active(nullptr, call.peer->incarnation, epoch_of(call), call.stop);
  TruncateWork work{*parts_, request, places, asker_of(call, nullptr), active, {}};
  work.states.resize(places.size());
  std::vector<job::Task<Result<void>>> tasks;
  for (std::size_t i = 0; i < places.size(); ++i) tasks.push_back(truncate_slot(work, i));
  SPATE_CO_TRY(std::ignore, co_await job::run_all(parts_->executor, std::move(tasks), active.stop()));
  wire::DatafileTruncateReply reply;
  reply.datafiles = std::move(work.states);
  co_return reply;
}

}  // namespace spate::io
