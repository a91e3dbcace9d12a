// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "client/attributes/attribute_cache.h"
#include "client/data/bulk.h"
#include "client/data/primary.h"
#include "client/data/transfer.h"
#include "client/data/transfer_state.h"
#include "datatype/measure.h"
#include "datatype/slot_cursor.h"
#include "job/deadline.h"

namespace spate::client {
namespace {

/// Pause before another attempt of a read whose data did not come.
constexpr Duration kReadAgainAfter = std::chrono::milliseconds(10);

/// Copies the inline stream of a reply to its place.
void scatter(const Transfer& transfer, std::uint32_t slot, ByteView stream) {
  datatype::SlotCursor cursor(transfer.what, transfer.target.distribution, slot);
  std::vector<datatype::SlotPiece> pieces;
  std::vector<MutableByteView> views;
  while (!stream.empty() && !cursor.done()) {
    datatype::BatchLimits limits;
    limits.max_bytes = stream.size();
    cursor.next_batch(limits, pieces);
    views.clear();
    for (const auto& piece : pieces) transfer.memory.append(piece.stream, piece.size, views);
    for (const MutableByteView view : views) {
      std::memcpy(view.data(), stream.data(), view.size());
      stream = stream.subspan(view.size());
    }
  }
}

/// Fills with zeros those of the first `valid` bytes of the whole stream that the slot did not send.
void fill_unsent(const Transfer& transfer, std::uint32_t slot, std::uint64_t sent, std::uint64_t valid) {
  datatype::SlotCursor cursor(transfer.what, transfer.target.distribution, slot);
  std::vector<datatype::SlotPiece> pieces;
  std::uint64_t seen = 0;
  while (!cursor.done()) {
    cursor.next_batch({}, pieces);
    for (const auto& piece : pieces) {
      const std::uint64_t skip = seen >= sent ? 0 : std::min(piece.size, sent - seen);
      const std::uint64_t begin = piece.stream + skip;
      const std::uint64_t end = std::min(piece.stream + piece.size, valid);
      if (begin < end) datatype::fill_zeros(transfer.memory, begin, end - begin);
      seen += piece.size;
    }
  }
}

Result<std::uint64_t> check_streams(const wire::ReadReply& reply, const Share& share) {
  if (reply.stream_bytes.size() != share.slots.size()) return Errc::kProtocol;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < share.slots.size(); ++i) {
    if (reply.stream_bytes[i] > share.stream_bytes[i]) return Errc::kProtocol;
    total += reply.stream_bytes[i];
  }
  return total;
}

/// If the connection breaks between the reply and the last of its data, this fails before the deadline, with an error
/// for which is_lost() holds.
job::Task<Result<void>> read_once(Transfer& transfer, const Share& share) {
  const Options& settings = transfer.target.session.options();
  const std::uint64_t total = share.total_bytes();
  const bool in_reply = in_message(transfer, share, settings.inline_read_bytes);
  wire::ReadRequest request;
  request.where = slot_set(transfer.target, share);
  request.what = share.what;
  request.inline_limit = in_reply ? settings.inline_read_bytes : 0;
  request.unit_bytes = settings.unit_bytes;
  request.path = transfer.target.path;
  Bytes body;
  wire::encode_body(request, body);
  rpc::CallOptions options = call_options(transfer, share);
  BulkData bulk(transfer.target, share, transfer.what, transfer.memory, BulkData::Direction::kReceive,
                settings.unit_bytes);
  if (in_reply) {
    options.reply_room += static_cast<std::uint32_t>(total);
  } else {
    options.bulk = &bulk;
  }
  auto raw = co_await share.channel->call(wire::Op::kRead, body, options);
  if (!raw) co_return refused_by(share, std::move(raw).error());
  auto reply = wire::decode_body<wire::ReadReply>(raw->body);
  Result<std::uint64_t> sent = reply ? check_streams(*reply, share) : Result<std::uint64_t>(reply.error());
  if (sent && in_reply && reply->data.size() != *sent) sent = Errc::kProtocol;
  if (!sent) {
    co_await bulk.abandon();
    co_return std::move(sent).error().within(share.channel->name());
  }
  if (in_reply) {
    ByteView data = reply->data;
    for (std::size_t i = 0; i < share.slots.size(); ++i) {
      const auto size = static_cast<std::size_t>(reply->stream_bytes[i]);
      scatter(transfer, share.slots[i].slot, data.first(size));
      data = data.subspan(size);
    }
  } else {
    const Limits limits = limits_of(share, transfer.limits);
    job::DeadlineScope scope(transfer.target.session.executor(), limits.deadline, limits.stop);  // a reply may lie
    auto finished = co_await bulk.finish(reply->stream_bytes, scope.token());
    if (!finished) co_return std::move(finished).error().within(share.channel->name());
  }
  for (std::size_t i = 0; i < share.slots.size(); ++i) transfer.sent[share.slots[i].slot] = reply->stream_bytes[i];
  co_return note_states(transfer, share, reply->datafiles, raw->header.incarnation);
}

/// Repeats the read until all data has come. The rpc layer resends a request only until its reply, and the data follows
/// the reply.
job::Task<Result<void>> read_share(Transfer& transfer, const Share& share) {
  if (may_bypass(transfer, share, false)) {
    SPATE_CO_TRY(const bool done_here, co_await move_by_client(transfer, share, false));
    if (done_here) co_return Result<void>();
  }
  job::Executor& executor = transfer.target.session.executor();
  for (;;) {
    auto done = co_await read_once(transfer, share);
    if (done || !is_lost(done.code())) co_return done;
    if (executor.now() + kReadAgainAfter >= transfer.limits.deadline)
      co_return Error(Errc::kTimeout, share.channel->name() + " did not send all data before the deadline");
    const job::StopToken stop = limits_of(share, transfer.limits).stop;
    const auto slept = co_await executor.sleep(kReadAgainAfter, stop);
    if (!slept) co_return Error(stop.reason());
  }
}

/// Asks all datafiles for the file's size: while somebody may be writing, only all of them together know it.
job::Task<Result<std::uint64_t>> ask_for_size(const Transfer& transfer, std::span<const SlotState> told) {
  const std::size_t slot_count = transfer.target.distribution.slot_count();
  std::vector<std::uint64_t> sizes(slot_count, 0);
  std::vector<bool> known(slot_count, false);
  for (const SlotState& s : told) {
    sizes[s.slot] = s.state.size;
    known[s.slot] = true;
  }
  std::vector<std::uint32_t> others;
  for (std::uint32_t slot = 0; slot < slot_count; ++slot) {
    if (!known[slot]) others.push_back(slot);
  }
  if (!others.empty()) {
    SPATE_CO_TRY(auto asked, co_await ask_datafiles(transfer.target, others, false, transfer.limits));
    for (const SlotState& s : asked) sizes[s.slot] = s.state.size;
  }
  co_return transfer.target.distribution.logical_size(sizes);
}

/// Whether the whole stream lies within the file, as far as the servers that were read know. They do not know if fewer
/// bytes came than the stream has. An unordered description needs more: its servers send zeros for a piece beyond the
/// end of their datafile if a later piece lies within. So the last byte of the file that it names must exist.
bool is_whole(const Transfer& transfer, std::span<const SlotState> told) {
  const std::uint64_t sent = std::accumulate(transfer.sent.begin(), transfer.sent.end(), std::uint64_t{0});
  if (sent < transfer.what.total_bytes()) return false;
  if (transfer.what.ordered()) return true;
  const Physical last = transfer.target.distribution.to_physical(datatype::file_end(transfer.what) - 1);
  return std::any_of(told.begin(), told.end(),
                     [&](const SlotState& s) { return s.slot == last.slot && s.state.size > last.offset; });
}

/// Finds out whether a short read ended at a hole or at the end of the file. `told`: the states from the servers that
/// were read. `before`: the size that was known under a lease when the read began.
job::Task<Result<std::uint64_t>> settle_short_read(Transfer& transfer, const std::vector<Share>& shares,
                                                   std::span<const SlotState> told,
                                                   std::optional<AttributeCache::KnownSize> before) {
  std::uint64_t size = before ? before->bytes : 0;
  const bool kept = before && transfer.target.attributes.known_size(transfer.target.handle) == before;
  if (!kept) {
    SPATE_CO_TRY(size, co_await ask_for_size(transfer, told));
  }
  const std::uint64_t valid = datatype::valid_bytes(transfer.what, size);
  for (const Share& share : shares) {
    for (const auto& ref : share.slots) fill_unsent(transfer, ref.slot, transfer.sent[ref.slot], valid);
  }
  co_return valid;
}

}  // namespace

job::Task<Result<TransferResult>> read(TransferTarget target, const datatype::Description& what,
                                       std::span<const MutableByteView> memory, Limits limits) {
  const datatype::MemoryMap map(memory);
  SPATE_CHECK(map.total_bytes() >= what.total_bytes());
  Transfer transfer{target, what, map, limits, {}, std::vector<std::uint64_t>(target.layout.slots.size(), 0)};
  SPATE_CO_TRY(auto shares, shares_of(transfer));
  const auto known_size = target.attributes.known_size(target.handle);
  std::vector<job::Task<Result<void>>> tasks;
  for (const Share& share : shares) {
    const auto once = [&transfer](const Share& now) { return read_share(transfer, now); };
    tasks.push_back(run_share(target.session, share, limits, once));
  }
  SPATE_CO_TRY(TransferResult result, co_await run_transfer(transfer, std::move(tasks)));
  if (!is_whole(transfer, result.slots)) {
    SPATE_CO_TRY(auto valid, co_await settle_short_read(transfer, shares, result.slots, known_size));
    result.bytes = valid;
  }
  co_return result;
}

}  // namespace spate::client
