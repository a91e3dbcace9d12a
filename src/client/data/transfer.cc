// SPDX-License-Identifier: Apache-2.0
#include "client/data/transfer.h"

#include <algorithm>
#include <numeric>

#include "client/bypass/bypass.h"
#include "client/data/bulk.h"
#include "client/data/share.h"
#include "datatype/measure.h"
#include "datatype/slot_cursor.h"
#include "job/deadline.h"

namespace spate::client {
namespace {

/// What inline data adds to a reply at most: header, datafile states, lengths.
constexpr std::uint32_t kReplyOverhead = 4096;
constexpr std::uint32_t kBytesPerSlotInReply = 48;
/// Between two attempts of a read whose data did not come.
constexpr Duration kReadAgainAfter = std::chrono::milliseconds(10);

/// One transfer under way: what its shares have in common. Lives on the frame of read() or write().
struct Transfer {
  TransferTarget& target;
  const datatype::Description& what;
  const datatype::MemoryMap& memory;
  Limits limits;
  std::vector<SlotState> states;
  std::vector<std::uint64_t> sent;  // [slot_count] of each slot's stream what came; reads only
};

rpc::CallOptions call_options(const Transfer& transfer, const Share& share) {
  rpc::CallOptions options = transfer.limits.call_options();
  if (transfer.target.capability.handle) options.capability = &transfer.target.capability;  // asking needs none
  options.reply_room = kReplyOverhead + static_cast<std::uint32_t>(share.slots.size()) * kBytesPerSlotInReply;
  return options;
}

Result<void> note_states(Transfer& transfer, const Share& share, std::span<const wire::DatafileState> states,
                         Incarnation incarnation) {
  if (states.size() != share.slots.size())
    return Error(Errc::kProtocol, share.channel->name() + " told of other slots than asked");
  for (std::size_t i = 0; i < states.size(); ++i) {
    transfer.states.push_back(SlotState{share.slots[i].slot, states[i], incarnation});
  }
  return {};
}

/// Copies the inline streams of a reply to where they belong.
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

/// What is wrong with a server's storage is told with its name: somebody has to go there.
Error refused_by(const Share& share, Error error) {
  switch (error.code()) {
    case Errc::kNoSpace:
    case Errc::kNoMemory:
    case Errc::kIoError:
    case Errc::kCorrupt: return std::move(error).within(share.channel->name());
    default: return error;
  }
}

/// The stream of one slot, appended to `out`: inline data of a write.
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

/// Zeros what a slot did not send of the first `valid` bytes of the whole stream.
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

/// Whether move_by_client() is worth the call: most transfers are not by this client itself.
bool may_bypass(const Transfer& transfer, const Share& share, bool is_write) {
  const TransferTarget& target = transfer.target;
  if (target.bypass == nullptr) return target.path == wire::DataPath::kBypass;
  return target.bypass->considers(target, share, is_write);
}

/// By this client itself. False: it has no leases for that, or not any more; nothing was told to anybody then.
job::Task<Result<bool>> move_by_client(Transfer& transfer, const Share& share, bool is_write) {
  const TransferTarget& target = transfer.target;
  const bool forced = target.path == wire::DataPath::kBypass;
  bool able = target.bypass != nullptr && transfer.what.ordered();
  if (able) able = co_await target.bypass->ready(target, share, is_write, transfer.limits);
  std::vector<SlotState> states;
  for (std::size_t i = 0; able && i < share.slots.size(); ++i) {
    const std::uint32_t slot = share.slots[i].slot;
    const SlotWork work{transfer.what, target.distribution, transfer.memory, slot, is_write};
    auto moved = co_await target.bypass->move(work);
    if (!moved) co_return refused_by(share, std::move(moved).error());
    able = moved->has_value();
    if (!able) break;
    if (!is_write) transfer.sent[slot] = (*moved)->bytes;
    SlotState state{slot, {}, share.channel->incarnation(), is_write};
    state.state.size = (*moved)->datafile_bytes;
    state.state.change_counter = (*moved)->counter;
    states.push_back(state);
  }
  if (able) transfer.states.insert(transfer.states.end(), states.begin(), states.end());
  if (!able && forced) {
    const std::string why = target.bypass != nullptr ? target.bypass->refusal() : "this client has it switched off";
    co_return Error(Errc::kNotSupported, "no bypass: " + why);
  }
  co_return able;
}

/// Whether a share's data travel in the request or reply itself. Not where a path is named: that one is to be taken.
bool in_message(const Transfer& transfer, const Share& share, std::uint32_t most_bytes) {
  return transfer.target.path == wire::DataPath::kAutomatic && share.total_bytes() <= most_bytes;
}

/// The connection broke, or could not be made.
bool lost(Errc code) { return code == Errc::kConnectionLost || code == Errc::kUnreachable; }

/// Fails with lost() before the deadline when the connection broke between the reply and the last of its data.
job::Task<Result<void>> read_once(Transfer& transfer, const Share& share) {
  const Options& settings = transfer.target.cluster.options();
  const std::uint64_t total = share.total_bytes();
  const bool in_reply = in_message(transfer, share, settings.inline_read_bytes);
  wire::ReadRequest request;
  request.where = slot_set(transfer.target, share);
  request.what = transfer.what;
  request.inline_limit = in_reply ? settings.inline_read_bytes : 0;
  request.unit_bytes = settings.unit_bytes;
  request.path = transfer.target.path;
  Bytes body;
  wire::encode_body(request, body);
  rpc::CallOptions options = call_options(transfer, share);
  BulkData bulk(transfer.target, share, transfer.what, transfer.memory, BulkData::Direction::kReceive);
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
    job::DeadlineScope scope(transfer.target.cluster.executor(), transfer.limits.deadline,
                             transfer.limits.stop);  // a reply may lie
    auto finished = co_await bulk.finish(reply->stream_bytes, scope.token());
    if (!finished) co_return std::move(finished).error().within(share.channel->name());
  }
  for (std::size_t i = 0; i < share.slots.size(); ++i) transfer.sent[share.slots[i].slot] = reply->stream_bytes[i];
  co_return note_states(transfer, share, reply->datafiles, raw->header.incarnation);
}

/// Until all of it has come: what the rpc layer resends ends with the reply, and the data follows it.
job::Task<Result<void>> read_share(Transfer& transfer, const Share& share) {
  if (may_bypass(transfer, share, false)) {
    SPATE_CO_TRY(const bool done_here, co_await move_by_client(transfer, share, false));
    if (done_here) co_return Result<void>();
  }
  job::Executor& executor = transfer.target.cluster.executor();
  for (;;) {
    auto done = co_await read_once(transfer, share);
    if (done || !lost(done.code())) co_return done;
    if (executor.now() + kReadAgainAfter >= transfer.limits.deadline)
      co_return Error(Errc::kTimeout, share.channel->name() + " did not send all data before the deadline");
    const auto slept = co_await executor.sleep(kReadAgainAfter, transfer.limits.stop);
    if (!slept) co_return Error(transfer.limits.stop.reason());
  }
}

job::Task<Result<void>> write_share(Transfer& transfer, const Share& share) {
  if (may_bypass(transfer, share, true)) {
    SPATE_CO_TRY(const bool done_here, co_await move_by_client(transfer, share, true));
    if (done_here) co_return Result<void>();
  }
  const Options& settings = transfer.target.cluster.options();
  wire::WriteRequest request;
  request.where = slot_set(transfer.target, share);
  request.what = transfer.what;
  request.unit_bytes = settings.unit_bytes;
  request.path = transfer.target.path;
  request.fs_time = transfer.target.cluster.fs_time();
  request.has_inline_data = in_message(transfer, share, settings.inline_write_bytes);
  rpc::CallOptions options = call_options(transfer, share);
  BulkData bulk(transfer.target, share, transfer.what, transfer.memory, BulkData::Direction::kSend);
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
    job::DeadlineScope scope(transfer.target.cluster.executor(), transfer.limits.deadline, transfer.limits.stop);
    auto finished = co_await bulk.finish(share.stream_bytes, scope.token());
    // Answered, so all of it has arrived: a connection that breaks now takes nothing of it back.
    if (!finished && !lost(finished.code())) co_return std::move(finished).error().within(share.channel->name());
  }
  co_return note_states(transfer, share, reply->datafiles, raw->header.incarnation);
}

Bytes punch_body(const Transfer& transfer, const Share& share, Punch how) {
  const auto fill = [&](auto request) {
    request.where = slot_set(transfer.target, share);
    request.what = transfer.what;
    request.fs_time = transfer.target.cluster.fs_time();
    if constexpr (requires { request.extend; }) {
      request.extend = true;
    } else {
      request.allocate = how == Punch::kSpace;
    }
    Bytes body;
    wire::encode_body(request, body);
    return body;
  };
  return how == Punch::kExtends ? fill(wire::DatafileAllocateRequest()) : fill(wire::PunchRequest());
}

job::Task<Result<void>> punch_share(Transfer& transfer, const Share& share, Punch how) {
  const bool extends = how == Punch::kExtends;
  if (extends && (share.channel->features() & wire::kFeatureAllocates) == 0)
    co_return Error(Errc::kNotSupported, share.channel->name() + " is of an earlier version");
  const Bytes body = punch_body(transfer, share, how);
  const wire::Op op = extends ? wire::Op::kDatafileAllocate : wire::Op::kPunch;
  auto raw = co_await share.channel->call(op, body, call_options(transfer, share));
  if (!raw) co_return refused_by(share, std::move(raw).error());
  auto reply = wire::decode_body<wire::WriteReply>(raw->body);
  if (!reply) co_return std::move(reply).error().within(share.channel->name());
  co_return note_states(transfer, share, reply->datafiles, raw->header.incarnation);
}

job::Task<Result<void>> flush_share(Transfer& transfer, const Share& share) {
  wire::DatafileFlushRequest request;
  request.handle = transfer.target.handle;
  request.slots = share.slots;
  Bytes body;
  wire::encode_body(request, body);
  auto raw = co_await share.channel->call(wire::Op::kDatafileFlush, body, call_options(transfer, share));
  if (!raw) co_return refused_by(share, std::move(raw).error());
  auto reply = wire::decode_body<wire::DatafileFlushReply>(raw->body);
  if (!reply) co_return std::move(reply).error().within(share.channel->name());
  if (reply->lost.size() != reply->datafiles.size())
    co_return Error(Errc::kProtocol, share.channel->name() + " told of losses of other slots than asked");
  SPATE_CO_TRY(std::ignore, note_states(transfer, share, reply->datafiles, raw->header.incarnation));
  const std::size_t first = transfer.states.size() - reply->lost.size();
  for (std::size_t i = 0; i < reply->lost.size(); ++i) transfer.states[first + i].lost = reply->lost[i];
  co_return Result<void>();
}

job::Task<Result<void>> ask_share(Transfer& transfer, const Share& share, bool sync) {
  if (sync && (share.channel->features() & wire::kFeatureFlushes) != 0) {
    auto flushed = co_await flush_share(transfer, share);
    co_return flushed;
  }
  wire::DatafileStatRequest request;
  request.handle = transfer.target.handle;
  request.slots = share.slots;
  Bytes body;
  wire::encode_body(request, body);  // DatafileSyncRequest has the same fields
  const wire::Op op = sync ? wire::Op::kDatafileSync : wire::Op::kDatafileStat;
  auto raw = co_await share.channel->call(op, body, call_options(transfer, share));
  if (!raw) co_return refused_by(share, std::move(raw).error());
  auto reply = wire::decode_body<wire::DatafileStatReply>(raw->body);
  if (!reply) co_return std::move(reply).error().within(share.channel->name());
  co_return note_states(transfer, share, reply->datafiles, raw->header.incarnation);
}

Result<std::vector<Share>> shares_of(const Transfer& transfer) {
  const auto slots = datatype::slots_touched(transfer.what, transfer.target.distribution);
  SPATE_TRY(auto shares, make_shares(transfer.target, slots));
  for (Share& share : shares) {
    for (const auto& ref : share.slots) {
      share.stream_bytes.push_back(datatype::bytes_for_slot(transfer.what, transfer.target.distribution, ref.slot));
    }
  }
  return shares;
}

/// Only all datafiles together know the size of a file that somebody may be writing.
job::Task<Result<std::uint64_t>> ask_for_size(const Transfer& transfer) {
  const std::size_t slot_count = transfer.target.distribution.slot_count();
  std::vector<std::uint64_t> sizes(slot_count, 0);
  std::vector<bool> known(slot_count, false);
  for (const SlotState& s : transfer.states) {
    sizes[s.slot] = s.state.size;
    known[s.slot] = true;
  }
  std::vector<std::uint32_t> others;
  for (std::uint32_t slot = 0; slot < slot_count; ++slot) {
    if (!known[slot]) others.push_back(slot);
  }
  if (!others.empty()) {
    auto asked = co_await ask_datafiles(transfer.target, others, false, transfer.limits);
    if (!asked) co_return std::move(asked).error();
    for (const SlotState& s : *asked) sizes[s.slot] = s.state.size;
  }
  co_return transfer.target.distribution.logical_size(sizes);
}

/// Where a short read ends: a hole or the end of the file? `before`: the size under a lease when the read began.
job::Task<Result<std::uint64_t>> settle_short_read(Transfer& transfer, const std::vector<Share>& shares,
                                                   std::optional<AttributeCache::KnownSize> before) {
  std::uint64_t size = before ? before->bytes : 0;
  const bool kept = before && transfer.target.cluster.attributes().known_size(transfer.target.handle) == before;
  if (!kept) {
    SPATE_CO_TRY(size, co_await ask_for_size(transfer));
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
  auto shares = shares_of(transfer);
  if (!shares) co_return std::move(shares).error();
  const auto known_size = target.cluster.attributes().known_size(target.handle);
  std::vector<job::Task<Result<void>>> tasks;
  for (const Share& share : *shares) tasks.push_back(read_share(transfer, share));
  if (tasks.empty()) co_return TransferResult();
  auto done = co_await run_shares(target.cluster.executor(), std::move(tasks));
  if (!done) co_return std::move(done).error();
  TransferResult result;
  result.bytes = what.total_bytes();
  const std::uint64_t sent = std::accumulate(transfer.sent.begin(), transfer.sent.end(), std::uint64_t{0});
  if (sent < result.bytes) {
    auto valid = co_await settle_short_read(transfer, *shares, known_size);
    if (!valid) co_return std::move(valid).error();
    result.bytes = *valid;
  }
  result.slots = std::move(transfer.states);
  co_return result;
}

job::Task<Result<TransferResult>> write(TransferTarget target, const datatype::Description& what,
                                        std::span<const ByteView> memory, Limits limits) {
  auto disjoint = datatype::check_disjoint(what);
  if (!disjoint) co_return std::move(disjoint).error();
  std::vector<MutableByteView> views;
  views.reserve(memory.size());
  // Only read from: the map and the network's segments have one type for both directions.
  for (const ByteView view : memory) views.emplace_back(const_cast<std::byte*>(view.data()), view.size());
  const datatype::MemoryMap map(views);
  SPATE_CHECK(map.total_bytes() >= what.total_bytes());
  Transfer transfer{target, what, map, limits, {}, {}};
  auto shares = shares_of(transfer);
  if (!shares) co_return std::move(shares).error();
  std::vector<job::Task<Result<void>>> tasks;
  for (const Share& share : *shares) tasks.push_back(write_share(transfer, share));
  if (tasks.empty()) co_return TransferResult();
  auto done = co_await run_shares(target.cluster.executor(), std::move(tasks));
  if (!done) co_return std::move(done).error();
  TransferResult result;
  result.bytes = what.total_bytes();
  result.slots = std::move(transfer.states);
  co_return result;
}

job::Task<Result<TransferResult>> punch(TransferTarget target, const datatype::Description& what, Punch how,
                                        Limits limits) {
  const datatype::MemoryMap no_memory{std::span<const MutableByteView>()};
  Transfer transfer{target, what, no_memory, limits, {}, {}};
  auto shares = shares_of(transfer);
  if (!shares) co_return std::move(shares).error();
  std::vector<job::Task<Result<void>>> tasks;
  for (const Share& share : *shares) tasks.push_back(punch_share(transfer, share, how));
  if (tasks.empty()) co_return TransferResult();
  auto done = co_await run_shares(target.cluster.executor(), std::move(tasks));
  if (!done) co_return std::move(done).error();
  TransferResult result;
  result.bytes = what.total_bytes();
  result.slots = std::move(transfer.states);
  co_return result;
}

job::Task<Result<std::vector<SlotState>>> ask_datafiles(TransferTarget target, std::span<const std::uint32_t> slots,
                                                        bool sync, Limits limits) {
  const datatype::Description nothing;
  const datatype::MemoryMap no_memory{std::span<const MutableByteView>()};
  Transfer transfer{target, nothing, no_memory, limits, {}, {}};
  if (!target.cluster.knows_targets(target.layout)) {
    SPATE_CO_TRY(std::ignore, co_await target.cluster.learn_targets(target.layout, limits));
  }
  auto shares = make_shares(target, slots);
  if (!shares) co_return std::move(shares).error();
  std::vector<job::Task<Result<void>>> tasks;
  for (const Share& share : *shares) tasks.push_back(ask_share(transfer, share, sync));
  if (tasks.empty()) co_return std::vector<SlotState>();
  auto done = co_await run_shares(target.cluster.executor(), std::move(tasks));
  if (!done) co_return std::move(done).error();
  co_return std::move(transfer.states);
}

}  // namespace spate::client
