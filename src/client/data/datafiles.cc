// SPDX-License-Identifier: Apache-2.0
// Requests to datafiles that carry no data: punch, allocate, stat, sync.
#include "client/data/primary.h"
#include "client/data/transfer.h"
#include "client/data/transfer_state.h"

namespace spate::client {
namespace {

Bytes punch_body(const Transfer& transfer, const Share& share, Punch how) {
  const auto fill = [&](auto request) {
    request.where = slot_set(transfer.target, share);
    request.what = share.what;
    request.fs_time = transfer.target.session.fs_time();
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

/// Whether the server knows the feature. If the server has never answered, this first sends it a ping.
job::Task<Result<bool>> knows(const Transfer& transfer, const Share& share, std::uint64_t feature) {
  if (share.channel->incarnation() == Incarnation()) {
    Bytes body;
    wire::encode_body(wire::PingRequest(), body);
    SPATE_CO_TRY(std::ignore,
                 co_await call_share<wire::PingReply>(share, wire::Op::kPing, body, call_options(transfer, share)));
  }
  co_return (share.channel->features() & feature) != 0;
}

job::Task<Result<void>> punch_share(Transfer& transfer, const Share& share, Punch how) {
  const bool extends = how == Punch::kExtends;
  if (extends) {
    SPATE_CO_TRY(const bool allocates, co_await knows(transfer, share, wire::kFeatureAllocates));
    if (!allocates)
      co_return Error(Errc::kNotSupported, share.channel->name() + " runs an earlier version, which cannot do this");
  }
  const Bytes body = punch_body(transfer, share, how);
  const wire::Op op = extends ? wire::Op::kDatafileAllocate : wire::Op::kPunch;
  SPATE_CO_TRY(const auto answer,
               co_await call_share<wire::WriteReply>(share, op, body, call_options(transfer, share)));
  co_return note_states(transfer, share, answer.reply.datafiles, answer.incarnation);
}

job::Task<Result<void>> flush_share(Transfer& transfer, const Share& share) {
  wire::DatafileFlushRequest request;
  request.handle = transfer.target.handle;
  request.slots = share.slots;
  Bytes body;
  wire::encode_body(request, body);
  SPATE_CO_TRY(const auto answer, co_await call_share<wire::DatafileFlushReply>(share, wire::Op::kDatafileFlush, body,
                                                                                call_options(transfer, share)));
  if (answer.reply.lost.size() != answer.reply.datafiles.size())
    co_return Error(Errc::kProtocol,
                    share.channel->name() + " reported losses of slots that the request does not name");
  SPATE_CO_TRY(std::ignore, note_states(transfer, share, answer.reply.datafiles, answer.incarnation));
  const std::size_t first = transfer.states.size() - answer.reply.lost.size();
  for (std::size_t i = 0; i < answer.reply.lost.size(); ++i) transfer.states[first + i].lost = answer.reply.lost[i];
  co_return Result<void>();
}

job::Task<Result<void>> ask_share(Transfer& transfer, const Share& share, bool sync) {
  bool flushes = false;
  if (sync) {
    SPATE_CO_TRY(flushes, co_await knows(transfer, share, wire::kFeatureFlushes));
  }
  if (flushes) {
    auto flushed = co_await flush_share(transfer, share);
    co_return flushed;
  }
  wire::DatafileStatRequest request;
  request.handle = transfer.target.handle;
  request.slots = share.slots;
  Bytes body;
  wire::encode_body(request, body);  // DatafileSyncRequest has the same fields
  const wire::Op op = sync ? wire::Op::kDatafileSync : wire::Op::kDatafileStat;
  SPATE_CO_TRY(const auto answer,
               co_await call_share<wire::DatafileStatReply>(share, op, body, call_options(transfer, share)));
  co_return note_states(transfer, share, answer.reply.datafiles, answer.incarnation);
}

}  // namespace

job::Task<Result<TransferResult>> punch(TransferTarget target, const datatype::Description& what, Punch how,
                                        Limits limits) {
  const datatype::MemoryMap no_memory{std::span<const MutableByteView>()};
  Transfer transfer{target, what, no_memory, limits, {}, {}};
  SPATE_CO_TRY(auto shares, shares_of(transfer));
  std::vector<job::Task<Result<void>>> tasks;
  for (const Share& share : shares) {
    const auto once = [&transfer, how](const Share& now) { return punch_share(transfer, now, how); };
    tasks.push_back(run_share(target.session, share, limits, once));
  }
  auto result = co_await run_transfer(transfer, std::move(tasks));
  co_return result;
}

job::Task<Result<std::vector<SlotState>>> ask_datafiles(TransferTarget target, std::span<const std::uint32_t> slots,
                                                        bool sync, Limits limits) {
  const datatype::Description nothing;
  const datatype::MemoryMap no_memory{std::span<const MutableByteView>()};
  Transfer transfer{target, nothing, no_memory, limits, {}, {}};
  if (!target.session.servers().knows_targets(target.layout)) {
    SPATE_CO_TRY(std::ignore, co_await target.session.learn_targets(target.layout, limits));
  }
  SPATE_CO_TRY(auto shares, make_shares(target, slots));
  std::vector<job::Task<Result<void>>> tasks;
  for (const Share& share : shares) {
    const auto once = [&transfer, sync](const Share& now) { return ask_share(transfer, now, sync); };
    tasks.push_back(run_share(target.session, share, limits, once));
  }
  SPATE_CO_TRY(TransferResult result, co_await run_transfer(transfer, std::move(tasks)));
  if (sync && target.layout.redundancy != Redundancy::kNone) {
    SPATE_CO_TRY(std::ignore, co_await settle_doubts(target, slots, limits));
    for (SlotState& s : result.slots)
      s.incarnation = target.session.servers().groups().loss(target.layout.slots[s.slot].targets.front());
  }
  co_return std::move(result.slots);
}

}  // namespace spate::client
