// SPDX-License-Identifier: Apache-2.0
// Ranges of datafiles that hold data. Clients answer SEEK_DATA and SEEK_HOLE with them.
#include "job/run_all.h"
#include "server/io/checks.h"
#include "server/io/io_service.h"
#include "server/io/store.h"
#include "server/io/target.h"

namespace spate::io {
namespace {

/// One request under way. Lives on the handler's frame.
struct RangesWork {
  const wire::DatafileRangesRequest& request;
  flow::Asker asker;
  ActiveRequest& active;
  wire::DatafileRangesReply& reply;
};

job::Task<Result<void>> ranges_of_slot(RangesWork& work, Target& target, std::size_t index) {
  trove::BytestreamRequest request;
  request.op = trove::BytestreamOp::kDataRanges;
  request.id = {work.request.handle, work.request.slots[index].slot};
  request.size = work.request.offsets[index];
  request.max_ranges = work.request.max_ranges;
  SPATE_CO_TRY(const auto done, co_await run_op(target, work.asker, request, work.active.token()));
  work.reply.datafiles[index] = state_of(done.stat);
  wire::SlotRanges& found = work.reply.ranges[index];
  found.complete_to = done.complete_to;
  found.ranges.reserve(done.ranges.size());
  for (const Extent& extent : done.ranges) found.ranges.push_back({extent.offset, extent.size});
  co_return Result<void>();
}

Result<void> check_request(const wire::DatafileRangesRequest& request) {
  if (request.offsets.size() != request.slots.size())
    return Error::told(Errc::kInvalidArgument, "as many offsets as slots are needed");
  if (request.max_ranges == 0 || request.max_ranges > wire::kMaxRangesPerSlot)
    return Error::told(Errc::kInvalidArgument, "1 to 256 ranges of a slot can be told");
  if (request.max_ranges * request.slots.size() > wire::kMaxRanges)
    return Error::told(Errc::kInvalidArgument, "more than 4096 ranges at once: ask for fewer of each slot");
  return {};
}

}  // namespace

job::Task<Result<wire::DatafileRangesReply>> IoService::datafile_ranges(rpc::Call& call,
                                                                        wire::DatafileRangesRequest request) {
  // Any right is enough: a program that has the file open may seek in it.
  SPATE_CO_TRY(ClientTable::Entry* const caller,
               authorize(*parts_, call, request.handle, Rights::kNone, CapabilityNeed::kRequired));
  SPATE_CO_TRY(const std::vector<Place> places, find_places(*parts_, call, request.slots));
  SPATE_CO_TRY(std::ignore, check_request(request));
  ActiveRequest active(caller, call.peer->incarnation, epoch_of(call), call.stop);
  wire::DatafileRangesReply reply;
  reply.datafiles.resize(places.size());
  reply.ranges.resize(places.size());
  RangesWork work{request, asker_of(call, caller), active, reply};
  std::vector<job::Task<Result<void>>> tasks;
  for (std::size_t i = 0; i < places.size(); ++i) tasks.push_back(ranges_of_slot(work, *places[i].target, i));
  auto outcome = co_await job::run_all(parts_->executor, std::move(tasks), active.stop());
  if (!outcome) co_return explain(std::move(outcome).error(), active, caller);
  SPATE_CO_TRY(std::ignore,
               co_await check_missing_alive(*parts_, request.handle, places, request.slots, reply.datafiles));
  SPATE_CO_TRY(std::ignore, check_places(places));
  co_return reply;
}

}  // namespace spate::io
