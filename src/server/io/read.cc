// SPDX-License-Identifier: Apache-2.0
// Read: sends small streams in the reply, and large ones as bulk messages, one stream for each slot.
#include <algorithm>
#include <cstring>
#include <deque>
#include <numeric>

#include "datatype/measure.h"
#include "flow/read_flow.h"
#include "flow/stream_sizes.h"
#include "server/io/checks.h"
#include "server/io/io_service.h"
#include "server/io/mirror/primary_term.h"
#include "server/io/paths.h"
#include "server/io/peer_memory.h"
#include "server/io/slot_tasks.h"
#include "server/io/store.h"
#include "server/io/target.h"

namespace spate::io {
namespace {

/// The result of one slot's stream.
struct SlotRead {
  std::uint64_t bytes = 0;
  trove::BytestreamStat stat;
};

/// A read whose data goes into the reply. Lives on the handler's frame.
struct InlineRead {
  Slots& slots;
  const datatype::Description& what;
  flow::Asker asker;
  ActiveRequest& active;
  std::vector<std::uint64_t> sizes;  // most bytes of each stream
  std::vector<SlotRead> done;
};

/// A read in bulk. It outlives the handler while the last messages are still leaving.
struct BulkRead {
  BulkRead(Parts& its_parts, ClientTable::Entry* its_caller, const rpc::Call& call)
      : parts(its_parts),
        caller(its_caller),
        asker(asker_of(call, its_caller)),
        active(caller, call.peer->incarnation, epoch_of(call), call.stop),
        peer(call.address),
        tag(call.tag),
        seals(call.peer->bulk_seals) {}

  Parts& parts;
  ClientTable::Entry* const caller;
  flow::Asker asker;
  ActiveRequest active;
  bmi::Address peer;
  bmi::Tag tag;
  std::shared_ptr<wire::BulkSeals> seals;
  wire::ReadRequest request;
  Slots slots;
  std::vector<SlotRead> done;
  std::deque<flow::ReadFlow> flows;
};

wire::ReadReply reply_of(std::span<const SlotRead> slots) {
  wire::ReadReply reply;
  reply.datafiles.reserve(slots.size());
  reply.stream_bytes.reserve(slots.size());
  for (const SlotRead& slot : slots) {
    reply.datafiles.push_back(state_of(slot.stat));
    reply.stream_bytes.push_back(slot.bytes);
  }
  return reply;
}

/// If the slot's copy cannot be read, another server with a copy leads. The client asks that one then.
job::Task<Result<void>> or_other_copy(const ResolvedSlot& slot, job::Task<Result<void>> read) {
  auto done = co_await std::move(read);
  if (done.code() != Errc::kIoError || slot.term == nullptr) co_return done;
  auto failed = co_await slot.term->read_failed(done.code());
  co_return failed;
}

job::Task<Result<void>> read_own_inline(InlineRead& work, std::size_t index, MutableByteView out) {
  const ResolvedSlot& slot = work.slots.list[index];
  const flow::DatafileStream share{work.asker, slot.id, work.what, *work.slots.distribution};
  flow::StorageReader reader(slot.target->device, share);
  SPATE_CO_TRY(work.done[index].bytes, co_await reader.fill(out, work.active.token()));
  SPATE_CO_TRY(work.done[index].stat, co_await reader.stat(work.active.token()));
  co_return Result<void>();
}

job::Task<Result<void>> read_slot_inline(InlineRead& work, std::size_t index, MutableByteView out) {
  return or_other_copy(work.slots.list[index], read_own_inline(work, index, out));
}

/// A stream that ended early leaves a gap: moves the next streams up. Returns the number of bytes.
std::uint64_t close_gaps(const InlineRead& work, MutableByteView data) {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  for (std::size_t i = 0; i < work.done.size(); ++i) {
    if (from != to) std::memmove(data.data() + to, data.data() + from, work.done[i].bytes);
    from += work.sizes[i];
    to += work.done[i].bytes;
  }
  return to;
}

/// Makes the encoded reply. Its head has a fixed size, so the data can be read directly behind it.
job::Task<Result<Bytes>> read_inline(Parts& parts, InlineRead& work, std::uint32_t reply_room) {
  const std::size_t slot_count = work.slots.list.size();
  work.done.resize(slot_count);
  Bytes head;
  wire::encode_body(reply_of(work.done), head);
  const std::size_t head_bytes = head.size();
  const std::uint64_t total = std::accumulate(work.sizes.begin(), work.sizes.end(), std::uint64_t{0});
  if (head_bytes + total > reply_room) {
    co_return Error::told(Errc::kInvalidArgument,
                          "the room posted for the reply does not hold the data that was asked for in it");
  }
  Bytes out(head_bytes + total);
  const MutableByteView data = MutableByteView(out).subspan(head_bytes);
  if (slot_count == 1) {
    SPATE_CO_TRY(std::ignore, co_await read_slot_inline(work, 0, data));
  } else {
    std::vector<job::Task<Result<void>>> tasks;
    std::uint64_t at = 0;
    for (std::size_t i = 0; i < slot_count; ++i) {
      tasks.push_back(read_slot_inline(work, i, data.subspan(at, work.sizes[i])));
      at += work.sizes[i];
    }
    SPATE_CO_TRY(std::ignore, co_await run_slots(parts.executor, work.what, std::move(tasks), work.active.stop()));
  }
  const std::uint64_t to = close_gaps(work, data);
  head.clear();
  wire::encode_body(reply_of(work.done), head);
  SPATE_CHECK(head.size() == head_bytes);
  Encoder(head).patch_u32(head_bytes - 4, static_cast<std::uint32_t>(to));  // the data's length ends the head
  std::memcpy(out.data(), head.data(), head_bytes);
  out.resize(head_bytes + to);
  parts.counters.moved(flow::Lane::kInline, flow::Direction::kRead, to);
  co_return out;
}

/// The datafile's descriptor and state; a null descriptor if the datafile was never written.
job::Task<Result<std::shared_ptr<const trove::OpenDatafile>>> open_slot(BulkRead& bulk, ResolvedSlot& slot) {
  auto file = bulk.parts.datafiles.file(*slot.datafile);
  if (file != nullptr) co_return file;
  trove::BytestreamRequest request;
  request.op = trove::BytestreamOp::kOpen;
  request.id = slot.id;
  auto opened = co_await run_op(*slot.target, bulk.asker, request, bulk.active.token());
  if (opened.code() == Errc::kNotFound) co_return file;
  if (!opened) co_return std::move(opened).error();
  file = std::move(opened->file);
  bulk.parts.datafiles.keep_open(*slot.datafile, file);
  co_return file;
}

job::Task<Result<void>> send(flow::ReadFlow& flow, const flow::PathChoice& choice, BulkRead& bulk, ResolvedSlot& slot,
                             SlotRead& done, std::shared_ptr<const trove::OpenDatafile> file) {
  Result<void> sent;
  if (choice.path == wire::DataPath::kCached) {
    sent = co_await flow.send_cached(std::move(file), done.stat, bulk.active.token());
  } else if (choice.path == wire::DataPath::kDirect || choice.path == wire::DataPath::kPeerToPeer) {
    const bool peer = choice.path == wire::DataPath::kPeerToPeer;
    const flow::DirectIo how{slot.target->direct.alignment, !choice.forced, peer};
    sent = co_await flow.send_direct(how, done.stat, bulk.active.token());
    if (flow.peer_refused()) note_peer_refusal(*slot.target);
  } else {
    sent = co_await flow.send_buffered(bulk.active.token());
  }
  co_return sent;
}

job::Task<Result<void>> read_own(BulkRead& bulk, std::size_t index) {
  ResolvedSlot& slot = bulk.slots.list[index];
  SlotRead& done = bulk.done[index];
  const bmi::Tag tag(bulk.tag.value + 1 + index);
  const flow::DatafileStream share{bulk.asker, slot.id, bulk.request.what, *bulk.slots.distribution};
  const flow::Route route{bulk.peer, tag, bulk.request.unit_bytes, bulk.seals};
  std::shared_ptr<const trove::OpenDatafile> file;
  flow::PathChoice choice;
  if (bulk.request.path != wire::DataPath::kBuffered) {
    SPATE_CO_TRY(file, co_await open_slot(bulk, slot));
    SPATE_CO_TRY(done.stat, co_await stat_datafile(*slot.target, bulk.asker, slot.id, bulk.active.token()));
    const bool sendable = file == nullptr || file->descriptor() >= 0;
    const StreamParams params{flow::Direction::kRead,   bulk.request.path,       bulk.request.what,
                              *bulk.slots.distribution, bulk.request.unit_bytes, bulk.peer,
                              bulk.seals != nullptr};
    SPATE_CO_TRY(ChosenPath chosen, co_await path_for(bulk.parts, slot, params, done.stat, sendable));
    choice = std::move(chosen.choice);
    // The datafile has no data.
    if (file == nullptr && choice.path != wire::DataPath::kBuffered) co_return Result<void>();
  }
  flow::ReadFlow& flow = bulk.flows.emplace_back(bulk.parts.flow, slot.target->device, share, route);
  SPATE_CO_TRY(std::ignore, co_await send(flow, choice, bulk, slot, done, std::move(file)));
  done.stat = flow.stat();
  done.bytes = flow.stream_bytes();
  co_return Result<void>();
}

job::Task<Result<void>> read_slot(BulkRead& bulk, std::size_t index) {
  return or_other_copy(bulk.slots.list[index], read_own(bulk, index));
}

/// The next try of the client reads the file before it sends anything, so it gets an answer.
void note_unreadable_file(BulkRead& bulk, const DatafileId& datafile) {
  constexpr Duration kReadFor = std::chrono::minutes(1);  // Guess
  for (ResolvedSlot& slot : bulk.slots.list) {
    if (slot.id == datafile) slot.datafile->unreadable_until = bulk.parts.executor.clock().now() + kReadFor;
  }
}

/// Finishes an answered read: waits for messages that the network has not taken yet. It keeps their memory and
/// descriptors. If the file of one cannot be read any more, the client waits for bytes that never come, although the
/// reply said `succeeded`: the end of the connection lets it try again.
job::Task<void> drain(std::unique_ptr<BulkRead> bulk, bool succeeded) {
  bool broken_promise = false;
  for (flow::ReadFlow& flow : bulk->flows) {
    co_await flow.drain();
    if (!flow.file_unreadable()) continue;
    note_unreadable_file(*bulk, flow.datafile());
    broken_promise = succeeded;
  }
  if (broken_promise) bulk->parts.flow.network.network().disconnect(bulk->peer);
}

/// Fails with kStaleHandle if the datafile was removed: a removed datafile must not look like a hole. Only datafiles
/// without data are checked.
job::Task<Result<void>> check_not_removed(Parts& parts, Slots& slots, std::span<const SlotRead> done) {
  for (std::size_t i = 0; i < slots.list.size(); ++i) {
    if (done[i].stat.change_counter != 0 || !may_be_removed(*slots.list[i].datafile)) continue;
    SPATE_CO_TRY(std::ignore, co_await check_alive(parts, *slots.list[i].datafile));
  }
  co_return Result<void>();
}

bool anything_missing(std::span<const SlotRead> done) {
  return std::any_of(done.begin(), done.end(), [](const SlotRead& slot) { return slot.stat.change_counter == 0; });
}

/// `moved_bytes` gets the number of bytes that were sent.
job::Task<Result<Bytes>> read_bulk(std::unique_ptr<BulkRead> bulk, std::uint64_t& moved_bytes) {
  Parts& parts = bulk->parts;
  bulk->done.resize(bulk->slots.list.size());
  std::vector<job::Task<Result<void>>> tasks;
  for (std::size_t i = 0; i < bulk->slots.list.size(); ++i) tasks.push_back(read_slot(*bulk, i));
  auto outcome = co_await run_slots(parts.executor, bulk->request.what, std::move(tasks), bulk->active.stop());
  if (!outcome) outcome = explain(std::move(outcome).error(), bulk->active, bulk->caller);
  if (outcome) outcome = check_places(bulk->slots);
  if (outcome && anything_missing(bulk->done)) outcome = co_await check_not_removed(parts, bulk->slots, bulk->done);
  for (const SlotRead& slot : bulk->done) moved_bytes += slot.bytes;
  Bytes out;
  if (outcome) wire::encode_body(reply_of(bulk->done), out);
  bulk->active.move_to(parts.stopping);
  job::Task<void> rest = drain(std::move(bulk), outcome.has_value());
  if (parts.gate.closed()) {
    co_await std::move(rest);
  } else {
    job::spawn(parts.gate, std::move(rest));
  }
  if (!outcome) co_return outcome.error();
  co_return out;
}

}  // namespace

job::Task<Result<Bytes>> IoService::read(rpc::Call& call, wire::ReadRequest request) {
  SPATE_CO_TRY(ClientTable::Entry* const caller,
               authorize(*parts_, call, request.where.handle, Rights::kRead, CapabilityNeed::kRequired));
  if (request.want_checksum) co_return Error::told(Errc::kNotSupported, "this server computes no checksums of data");
  if (!wire::is_known(request.path)) {
    co_return Error::told(Errc::kInvalidArgument,
                          "data path " + std::to_string(static_cast<unsigned>(request.path)) + " is not known");
  }
  if (request.inline_limit > kMaxInlineBytes)
    co_return Error::told(Errc::kInvalidArgument, "at most 256 KiB fit a reply");
  if (request.inline_limit > 0) {
    SPATE_CO_TRY(std::ignore, check_inline(request.path));
  }
  SPATE_CO_TRY(Slots slots, find_slots(*parts_, call, request.where));
  call.file = request.where.handle;
  ActiveRequest active(caller, call.peer->incarnation, epoch_of(call), call.stop);
  std::vector<std::uint64_t> sizes;  // of the streams, if they go into the reply
  if (datatype::may_be_inline(request.what, slots.list.size())) {
    const std::vector<std::uint32_t> numbers = slots.numbers();
    sizes = co_await flow::stream_sizes_up_to(parts_->executor, request.what, *slots.distribution, numbers,
                                              request.inline_limit);
    if (active.stop().stopped()) co_return explain(Error(active.token().reason()), active, caller);
  }
  if (!sizes.empty()) {
    InlineRead work{slots, request.what, asker_of(call, caller), active, std::move(sizes), {}};
    auto reply = co_await read_inline(*parts_, work, call.header.reply_room);
    if (!reply) co_return explain(std::move(reply).error(), active, caller);
    for (const SlotRead& slot : work.done) call.moved_bytes += slot.bytes;
    if (request.inline_limit > 0) note_inline(*parts_, flow::Direction::kRead);
    if (anything_missing(work.done)) {
      SPATE_CO_TRY(std::ignore, co_await check_not_removed(*parts_, slots, work.done));
    }
    SPATE_CO_TRY(std::ignore, check_places(slots));
    co_return reply;
  }
  SPATE_CO_TRY(std::ignore, check_unit(request.unit_bytes));
  auto bulk = std::make_unique<BulkRead>(*parts_, caller, call);
  bulk->request = std::move(request);
  bulk->slots = std::move(slots);
  auto reply = co_await read_bulk(std::move(bulk), call.moved_bytes);
  co_return reply;
}

}  // namespace spate::io
