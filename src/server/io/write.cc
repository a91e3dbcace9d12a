// SPDX-License-Identifier: Apache-2.0
// Write: small streams come in the request, large ones are pulled as there are buffers, each slot a stream of its own.
#include "flow/extents.h"
#include "flow/policy.h"
#include "flow/write_flow.h"
#include "server/io/checks.h"
#include "server/io/io_service.h"
#include "server/io/parallel.h"
#include "server/io/storage.h"
#include "server/io/store.h"

namespace spate::io {
namespace {

/// One write under way. Lives on the handler's frame.
struct WriteWork {
  Parts& parts;
  const wire::WriteRequest& request;
  const rpc::Call& call;
  flow::Asker asker;
  ActiveRequest& active;
  Slots& slots;
  std::vector<ByteView> inline_data;  // each slot's stream, when it came in the request
  std::vector<wire::DatafileState> states;
};

/// Cuts the request's data into the slots' streams; kProtocol unless it is exactly as long as they are.
Result<std::vector<ByteView>> cut_inline(const wire::WriteRequest& request, const Slots& slots) {
  std::vector<ByteView> streams;
  ByteView rest = request.data;
  for (const Slot& slot : slots.list) {
    const std::uint64_t size = flow::stream_bytes_up_to(request.what, *slots.distribution, slot.id.slot, rest.size());
    if (size > rest.size()) return Error(Errc::kProtocol, "the request holds less data than it describes");
    streams.push_back(rest.first(size));
    rest = rest.subspan(size);
  }
  if (!rest.empty()) return Error(Errc::kProtocol, "the request holds more data than it describes");
  return streams;
}

/// The bytes of one stream, however they come; yields the datafile's state after it.
job::Task<Result<std::optional<trove::BytestreamStat>>> move_stream(WriteWork& work, std::size_t index) {
  const Slot& slot = work.slots.list[index];
  const flow::Share share{work.asker, slot.id, work.request.what, *work.slots.distribution};
  flow::Device& device = slot.target->device;
  std::optional<trove::BytestreamStat> after;
  if (work.request.has_inline_data) {
    flow::StorageWriter writer(device, share, work.request.fs_time);
    datatype::SlotCursor at(share.what, share.distribution, slot.id.slot);
    SPATE_CO_TRY(std::ignore, co_await writer.write(at, work.inline_data[index], work.active.token()));
    work.parts.counters.moved(flow::Lane::kInline, flow::Direction::kWrite, work.inline_data[index].size());
    if (writer.has_stat()) after = writer.stat();
  } else {
    const flow::Route route{work.call.address, bmi::Tag(work.call.tag.value + 1 + index), work.request.unit_bytes};
    flow::WriteFlow flow(work.parts.flow, device, share, route, work.request.fs_time);
    SPATE_CO_TRY(std::ignore, co_await flow.run(work.active.token()));
    if (flow.writer().has_stat()) after = flow.writer().stat();
  }
  co_return after;
}

job::Task<Result<void>> write_slot(WriteWork& work, std::size_t index) {
  Slot& slot = work.slots.list[index];
  SPATE_CO_TRY(const DatafileLock::Hold hold, co_await slot.datafile->lock.shared(work.active.token()));
  SPATE_CO_TRY(std::ignore, co_await check_alive(work.parts, *slot.datafile));
  SPATE_CO_TRY(std::optional<trove::BytestreamStat> stat, co_await move_stream(work, index));
  if (work.request.sync) {
    SPATE_CO_TRY(std::ignore, co_await sync_datafile(work.parts, *slot.target, slot.id, work.active.token()));
  }
  if (!stat) {
    SPATE_CO_TRY(stat, co_await stat_datafile(*slot.target, work.asker, slot.id, work.active.token()));
  }
  work.states[index] = state_of(*stat);
  co_return Result<void>();
}

Result<void> check_request(const wire::WriteRequest& request) {
  if (request.checksum) return Error(Errc::kNotSupported, "this server checks no checksums of data");
  flow::PathFacts facts;
  facts.direction = flow::Direction::kWrite;
  SPATE_TRY(std::ignore, flow::choose_path(request.path, facts));
  if (request.has_inline_data) return {};
  if (!request.data.empty()) return Error(Errc::kProtocol, "the request holds data that it does not announce");
  return check_unit(request.unit_bytes);
}

}  // namespace

job::Task<Result<wire::WriteReply>> IoService::write(rpc::Call& call, wire::WriteRequest request) {
  SPATE_CO_TRY(ClientTable::Entry* const caller,
               authorize(*parts_, call, request.where.handle, Rights::kWrite, Need::kRequired));
  SPATE_CO_TRY(std::ignore, check_request(request));
  SPATE_CO_TRY(Slots slots, find_slots(*parts_, call, request.where));
  std::vector<ByteView> streams;
  if (request.has_inline_data) {
    SPATE_CO_TRY(streams, cut_inline(request, slots));
  }
  ActiveRequest active(caller, call.peer->incarnation, epoch_of(call), call.stop);
  WriteWork work{*parts_, request, call, asker_of(call, caller), active, slots, std::move(streams), {}};
  work.states.resize(slots.list.size());
  std::vector<job::Task<Result<void>>> tasks;
  for (std::size_t i = 0; i < slots.list.size(); ++i) tasks.push_back(write_slot(work, i));
  auto outcome = co_await run_all(parts_->executor, std::move(tasks), active.stop());
  if (!outcome) co_return explain(std::move(outcome).error(), active, caller);
  wire::WriteReply reply;
  reply.datafiles = std::move(work.states);
  co_return reply;
}

}  // namespace spate::io
