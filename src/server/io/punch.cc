// SPDX-License-Identifier: Apache-2.0
// Punch and allocate: replaces bytes by zeros, or reserves space for them.
#include "datatype/slot_cursor.h"
#include "flow/extents.h"
#include "server/io/checks.h"
#include "server/io/full_target.h"
#include "server/io/io_service.h"
#include "server/io/mirror/change_at.h"
#include "server/io/removal.h"
#include "server/io/slot_tasks.h"
#include "server/io/store.h"
#include "server/io/target.h"

namespace spate::io {
namespace {

/// The operation on the described bytes.
struct Params {
  const wire::SlotSet& where;
  const datatype::Description& what;
  trove::BytestreamOp op;
  bool extend = false;
  WallTime now;
};

/// One request under way. Lives on its frame.
struct PunchWork {
  Parts& parts;
  const Params& params;
  flow::Asker asker;
  ActiveRequest& active;
  Slots& slots;
  std::vector<wire::DatafileState> states;
};

job::Task<Result<void>> punch_slot(PunchWork& work, std::size_t index) {
  ResolvedSlot& slot = work.slots.list[index];
  SPATE_CO_TRY(const DatafileLock::Hold hold,
               co_await work.parts.leases.lock(*slot.datafile, DatafileLock::Mode::kShared, work.asker.client,
                                               work.active.token()));
  SPATE_CO_TRY(std::ignore, co_await check_alive(work.parts, *slot.datafile));
  const EndAtRemoval removal(*slot.datafile, work.active);
  datatype::SlotCursor cursor(work.params.what, *work.slots.distribution, slot.id.slot);
  std::vector<Extent> extents;
  while (!cursor.done()) {
    if (cursor.next_extents({~0ULL, flow::kMaxPieces}, extents) == 0) {
      co_await work.parts.executor.yield();
      continue;
    }
    trove::BytestreamRequest request;
    request.op = work.params.op;
    request.extend = work.params.extend;
    request.id = slot.id;
    request.extents = extents;
    request.now = work.params.now;
    const Place place{slot.target, slot.term};
    const auto done = co_await change_at(place, request, {}, work.asker, work.active.token());
    if (!done) {
      if (slot.term == nullptr) note_if_full(work.parts, *slot.target, done.code());
      co_return done.error();
    }
  }
  SPATE_CO_TRY(const auto stat, co_await stat_datafile(*slot.target, work.asker, slot.id, work.active.token()));
  work.states[index] = state_of(stat);
  co_return Result<void>();
}

/// `params` and the memory behind its members outlive the task.
job::Task<Result<wire::WriteReply>> carry_out(Parts& parts, const rpc::Call& call, const Params& params) {
  SPATE_CO_TRY(ClientTable::Entry* const caller,
               authorize(parts, call, params.where.handle, Rights::kWrite, CapabilityNeed::kRequired));
  SPATE_CO_TRY(Slots slots, find_slots(parts, call, params.where));
  ActiveRequest active(caller, call.peer->incarnation, epoch_of(call), call.stop);
  PunchWork work{parts, params, asker_of(call, caller), active, slots, {}};
  work.states.resize(slots.list.size());
  std::vector<job::Task<Result<void>>> tasks;
  for (std::size_t i = 0; i < slots.list.size(); ++i) tasks.push_back(punch_slot(work, i));
  auto outcome = co_await run_slots(parts.executor, params.what, std::move(tasks), active.stop());
  if (!outcome) co_return explain(std::move(outcome).error(), active, caller);
  SPATE_CO_TRY(std::ignore, check_places(slots));
  wire::WriteReply reply;
  reply.datafiles = std::move(work.states);
  co_return reply;
}

}  // namespace

job::Task<Result<wire::PunchReply>> IoService::punch(rpc::Call& call, wire::PunchRequest request) {
  const auto op = request.allocate ? trove::BytestreamOp::kAllocate : trove::BytestreamOp::kPunch;
  const Params params{request.where, request.what, op, false, credible_time(*parts_, request.fs_time)};
  auto reply = co_await carry_out(*parts_, call, params);
  co_return reply;
}

job::Task<Result<wire::DatafileAllocateReply>> IoService::datafile_allocate(rpc::Call& call,
                                                                            wire::DatafileAllocateRequest request) {
  const Params params{request.where, request.what, trove::BytestreamOp::kAllocate, request.extend,
                      credible_time(*parts_, request.fs_time)};
  auto reply = co_await carry_out(*parts_, call, params);
  co_return reply;
}

}  // namespace spate::io
