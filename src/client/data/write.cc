// SPDX-License-Identifier: Apache-2.0
#include "client/data/bulk.h"
#include "client/data/primary.h"
#include "client/data/transfer.h"
#include "client/data/transfer_state.h"
#include "datatype/measure.h"
#include "datatype/slot_cursor.h"
#include "job/deadline.h"

namespace spate::client {
namespace {

/// Appends the stream of one slot to `out`, for a write with inline data.
void gather(const Transfer& transfer, std::uint32_t slot, Bytes& out) {
  datatype::SlotCursor cursor(transfer.what, transfer.target.distribution, slot);
  std::vector<datatype::SlotPiece> pieces;
  std::vector<MutableByteView> views;
  while (!cursor.done()) {
    cursor.next_batch({}, pieces);
    views.clear();
    for (const auto& piece : pieces) transfer.memory.append(piece.stream, piece.size, views);
    for (const MutableByteView view : views) out.insert(out.end(), view.begin(), view.end());
  }
}

job::Task<Result<void>> write_share(Transfer& transfer, const Share& share) {
  if (may_bypass(transfer, share, true)) {
    SPATE_CO_TRY(const bool done_here, co_await move_by_client(transfer, share, true));
    if (done_here) co_return Result<void>();
  }
  const Options& settings = transfer.target.session.options();
  wire::WriteRequest request;
  request.where = slot_set(transfer.target, share);
  request.what = share.what;
  request.unit_bytes = write_unit_bytes(settings, share);
  request.path = transfer.target.path;
  request.fs_time = transfer.target.written_at.value_or(transfer.target.session.fs_time());
  request.has_inline_data = in_message(transfer, share, settings.inline_write_bytes);
  rpc::CallOptions options = call_options(transfer, share);
  BulkData bulk(transfer.target, share, transfer.what, transfer.memory, BulkData::Direction::kSend, request.unit_bytes);
  if (request.has_inline_data) {
    request.data.reserve(static_cast<std::size_t>(share.total_bytes()));
    for (const auto& ref : share.slots) gather(transfer, ref.slot, request.data);
  } else {
    options.bulk = &bulk;
  }
  Bytes body;
  wire::encode_body(request, body);
  auto raw = co_await share.channel->call(wire::Op::kWrite, body, options);
  if (!raw) co_return refused_by(share, std::move(raw).error());
  auto reply = wire::decode_body<wire::WriteReply>(raw->body);
  if (!reply) {
    co_await bulk.abandon();
    co_return std::move(reply).error().within(share.channel->name());
  }
  if (options.bulk != nullptr) {
    const Limits limits = limits_of(share, transfer.limits);
    job::DeadlineScope scope(transfer.target.session.executor(), limits.deadline, limits.stop);
    auto finished = co_await bulk.finish(share.stream_bytes, scope.token());
    // The server has answered, so all data has arrived, even if the connection breaks now.
    if (!finished && !is_lost(finished.code())) co_return std::move(finished).error().within(share.channel->name());
  }
  co_return note_states(transfer, share, reply->datafiles, raw->header.incarnation);
}

}  // namespace

job::Task<Result<TransferResult>> write(TransferTarget target, const datatype::Description& what,
                                        std::span<const ByteView> memory, Limits limits) {
  SPATE_CO_TRY(std::ignore, datatype::check_disjoint(what));
  std::vector<MutableByteView> views;
  views.reserve(memory.size());
  // The memory is only read. MemoryMap and the network's segments have one type for both directions.
  for (const ByteView view : memory) views.emplace_back(const_cast<std::byte*>(view.data()), view.size());
  const datatype::MemoryMap map(views);
  SPATE_CHECK(map.total_bytes() >= what.total_bytes());
  Transfer transfer{target, what, map, limits, {}, {}};
  SPATE_CO_TRY(auto shares, shares_of(transfer));
  std::vector<job::Task<Result<void>>> tasks;
  for (const Share& share : shares) {
    const auto once = [&transfer](const Share& now) { return write_share(transfer, now); };
    tasks.push_back(run_share(target.session, share, limits, once));
  }
  auto result = co_await run_transfer(transfer, std::move(tasks));
  co_return result;
}

}  // namespace spate::client
