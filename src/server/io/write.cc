// SPDX-License-Identifier: Apache-2.0
// Write: small streams come in the request; large ones are pulled when buffers are free, one stream for each slot.
#include "datatype/measure.h"
#include "flow/stream_sizes.h"
#include "flow/write_flow.h"
#include "model/defect.h"
#include "server/io/checks.h"
#include "server/io/full_target.h"
#include "server/io/io_service.h"
#include "server/io/mirror/change_at.h"
#include "server/io/paths.h"
#include "server/io/peer_memory.h"
#include "server/io/removal.h"
#include "server/io/slot_tasks.h"
#include "server/io/store.h"
#include "server/io/sync.h"
#include "server/io/target.h"

namespace spate::io {
namespace {

/// One write under way. Lives on the handler's frame.
struct WriteWork {
  Parts& parts;
  const wire::WriteRequest& request;
  rpc::Call& call;
  flow::Asker asker;
  ActiveRequest& active;
  Slots& slots;
  std::vector<ByteView> inline_data;  // each slot's stream, if it came in the request
  std::vector<wire::DatafileState> states;
};

/// Cuts the request's data into the slots' streams; kProtocol unless it has exactly their total length.
job::Task<Result<std::vector<ByteView>>> cut_inline(job::Executor& executor, const wire::WriteRequest& request,
                                                    const Slots& slots) {
  if (!datatype::may_be_inline(request.what, slots.list.size()))
    co_return Error::told(Errc::kInvalidArgument, "data of this many pieces and slots must come in bulk messages");
  ByteView rest = request.data;
  const std::vector<std::uint32_t> numbers = slots.numbers();
  const std::vector<std::uint64_t> sizes =
      co_await flow::stream_sizes_up_to(executor, request.what, *slots.distribution, numbers, rest.size());
  if (sizes.empty()) co_return Error::told(Errc::kProtocol, "the request holds less data than it describes");
  std::vector<ByteView> streams;
  for (const std::uint64_t size : sizes) {
    streams.push_back(rest.first(size));
    rest = rest.subspan(size);
  }
  if (!rest.empty()) co_return Error::told(Errc::kProtocol, "the request holds more data than it describes");
  co_return streams;
}

std::optional<trove::BytestreamStat> stat_of(const flow::StorageWriter& writer) {
  return writer.has_stat() ? std::optional(writer.stat()) : std::nullopt;
}

/// Takes the datafile's lock and checks that the datafile may be written.
job::Task<Result<DatafileLock::Hold>> take_alive(WriteWork& work, ResolvedSlot& slot, DatafileLock::Mode mode) {
  SPATE_CO_TRY(DatafileLock::Hold hold,
               co_await work.parts.leases.lock(*slot.datafile, mode, work.asker.client, work.active.token()));
  SPATE_CO_TRY(std::ignore, co_await check_alive(work.parts, *slot.datafile));
  co_return std::move(hold);
}

/// Writes a stream that came in the request.
job::Task<Result<std::optional<trove::BytestreamStat>>> write_inline(WriteWork& work, std::size_t index) {
  ResolvedSlot& slot = work.slots.list[index];
  SPATE_CO_TRY(const DatafileLock::Hold hold, co_await take_alive(work, slot, DatafileLock::Mode::kShared));
  const EndAtRemoval removal(*slot.datafile, work.active);
  const GapWriter gaps(work.parts.leases, *slot.datafile);
  MirrorWriter carrier({slot.target, slot.term}, work.asker);
  const flow::DatafileStream share{work.asker,   slot.id,       work.request.what, *work.slots.distribution,
                                   gaps.alone(), carrier.used()};
  flow::StorageWriter writer(slot.target->device, share, work.request.fs_time);
  datatype::SlotCursor at(share.what, share.distribution, slot.id.slot);
  SPATE_CO_TRY(std::ignore, co_await writer.write(at, work.inline_data[index], work.active.token()));
  if (index == 0) note_inline(work.parts, flow::Direction::kWrite);
  work.parts.counters.moved(flow::Lane::kInline, flow::Direction::kWrite, work.inline_data[index].size());
  work.call.moved_bytes += work.inline_data[index].size();
  co_return stat_of(writer);
}

/// Writes a stream from bulk messages. In a direct write the edges that fill no block come last, when nobody writes
/// past the page cache any more. The lock is kept from the first block to the last edge, so that a truncate is either
/// before the write or after it.
job::Task<Result<std::optional<trove::BytestreamStat>>> write_bulk(WriteWork& work, std::size_t index) {
  ResolvedSlot& slot = work.slots.list[index];
  const StreamParams params{flow::Direction::kWrite,
                            work.request.path,
                            work.request.what,
                            *work.slots.distribution,
                            work.request.unit_bytes,
                            work.call.address,
                            work.call.peer->bulk_seals != nullptr};
  trove::BytestreamStat before;
  if (work.request.path == wire::DataPath::kAutomatic) {
    SPATE_CO_TRY(before, co_await stat_datafile(*slot.target, work.asker, slot.id, work.active.token()));
  }
  ChosenPath chosen;
  if (slot.term == nullptr) {
    SPATE_CO_TRY(chosen, co_await path_for(work.parts, slot, params, before, true));
  } else {
    // The other members get the data from this server's memory, so the write must be buffered.
    if (work.request.path == wire::DataPath::kPeerToPeer)
      co_return Error::told(Errc::kNotSupported, "other servers have copies of the datafile");
    chosen.choice.path = wire::DataPath::kBuffered;
  }
  const bool peer = chosen.choice.path == wire::DataPath::kPeerToPeer;
  const bool direct = chosen.choice.path == wire::DataPath::kDirect || peer;
  const flow::Route route{work.call.address, bmi::Tag(work.call.tag.value + 1 + index), work.request.unit_bytes,
                          work.call.peer->bulk_seals};
  const auto mode = direct ? DatafileLock::Mode::kDirect : DatafileLock::Mode::kShared;
  SPATE_CO_TRY(DatafileLock::Hold hold, co_await take_alive(work, slot, mode));
  const EndAtRemoval removal(*slot.datafile, work.active);
  const GapWriter gaps(work.parts.leases, *slot.datafile);
  MirrorWriter carrier({slot.target, slot.term}, work.asker);
  const flow::DatafileStream share{work.asker,   slot.id,       work.request.what, *work.slots.distribution,
                                   gaps.alone(), carrier.used()};
  flow::WriteFlow flow(work.parts.flow, slot.target->device, share, route, work.request.fs_time);
  Result<void> moved;
  if (direct) {
    const flow::DirectIo how{slot.target->direct.alignment, !chosen.choice.forced, peer};
    moved = co_await flow.run_direct(chosen.run, how, work.active.token());
    if (flow.peer_refused()) note_peer_refusal(*slot.target);
  } else {
    moved = co_await flow.run(work.active.token());
  }
  work.call.moved_bytes += flow.stream_bytes();
  if (!moved) co_return std::move(moved).error();
  if (flow.has_edges()) {
    if (planted(Defect::kSplitDirectWrite)) {
      hold = DatafileLock::Hold();
      SPATE_CO_TRY(hold, co_await take_alive(work, slot, DatafileLock::Mode::kShared));
    } else {
      SPATE_CO_TRY(std::ignore, co_await slot.datafile->lock.to_shared(hold, work.active.token()));
    }
    SPATE_CO_TRY(std::ignore, co_await flow.write_edges(work.active.token()));
  }
  co_return stat_of(flow.writer());
}

job::Task<Result<void>> write_slot(WriteWork& work, std::size_t index) {
  ResolvedSlot& slot = work.slots.list[index];
  Result<std::optional<trove::BytestreamStat>> stat = std::optional<trove::BytestreamStat>();
  if (work.request.has_inline_data) {
    stat = co_await write_inline(work, index);
  } else {
    stat = co_await write_bulk(work, index);
  }
  if (!stat) {
    if (slot.term == nullptr) note_if_full(work.parts, *slot.target, stat.code());
    co_return std::move(stat).error();
  }
  if (!*stat) {
    SPATE_CO_TRY(*stat, co_await stat_datafile(*slot.target, work.asker, slot.id, work.active.token()));
  }
  if (work.request.sync && slot.term != nullptr) {
    SPATE_CO_TRY(std::ignore, co_await slot.term->sync_mirrors(slot.id, work.call.header.trace));
  }
  if (work.request.sync) {
    SPATE_CO_TRY(const SyncOutcome synced,
                 co_await sync_datafile(work.parts, *slot.target, slot.id, work.active.token()));
    if (synced.lost >= (*stat)->change_counter) co_return Error::told(Errc::kLostWrite, "write-back has failed");
  }
  work.states[index] = state_of(**stat);
  co_return Result<void>();
}

Result<void> check_request(const wire::WriteRequest& request) {
  if (request.checksum) return Error::told(Errc::kNotSupported, "this server checks no checksums of data");
  if (request.has_inline_data) {
    SPATE_TRY(std::ignore, check_inline(request.path));
  }
  // First refuse a path that no write can take.
  flow::PathFacts facts;
  facts.direction = flow::Direction::kWrite;
  facts.direct_alignment = 1;
  facts.peer_refusal = {};
  facts.one_run = true;
  SPATE_TRY(std::ignore, flow::choose_path(request.path, facts));
  if (request.has_inline_data) return {};
  if (!request.data.empty()) return Error::told(Errc::kProtocol, "the request holds data that it does not announce");
  return check_unit(request.unit_bytes);
}

}  // namespace

job::Task<Result<wire::WriteReply>> IoService::write(rpc::Call& call, wire::WriteRequest request) {
  request.fs_time = credible_time(*parts_, request.fs_time);
  SPATE_CO_TRY(ClientTable::Entry* const caller,
               authorize(*parts_, call, request.where.handle, Rights::kWrite, CapabilityNeed::kRequired));
  SPATE_CO_TRY(std::ignore, check_request(request));
  SPATE_CO_TRY(Slots slots, find_slots(*parts_, call, request.where));
  call.file = request.where.handle;
  ActiveRequest active(caller, call.peer->incarnation, epoch_of(call), call.stop);
  std::vector<ByteView> streams;
  if (request.has_inline_data) {
    SPATE_CO_TRY(streams, co_await cut_inline(parts_->executor, request, slots));
  }
  WriteWork work{*parts_, request, call, asker_of(call, caller), active, slots, std::move(streams), {}};
  work.states.resize(slots.list.size());
  std::vector<job::Task<Result<void>>> tasks;
  for (std::size_t i = 0; i < slots.list.size(); ++i) tasks.push_back(write_slot(work, i));
  auto outcome = co_await run_slots(parts_->executor, request.what, std::move(tasks), active.stop());
  if (!outcome) co_return explain(std::move(outcome).error(), active, caller);
  wire::WriteReply reply;
  reply.datafiles = std::move(work.states);
  co_return reply;
}

}  // namespace spate::io
