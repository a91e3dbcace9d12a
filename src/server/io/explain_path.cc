// SPDX-License-Identifier: Apache-2.0
// Explain path: reports which path a read or write would take, for `spate explain`.
#include "server/io/checks.h"
#include "server/io/io_service.h"
#include "server/io/paths.h"
#include "server/io/slot_tasks.h"
#include "server/io/target.h"

namespace spate::io {
namespace {

constexpr std::uint32_t kExplainedUnit = 1U << 20U;

struct ExplainWork {
  Parts& parts;
  const wire::ExplainPathRequest& request;
  flow::Asker asker;
  ActiveRequest& active;
  Slots& slots;
  bmi::Address peer;
  std::vector<wire::ExplainedPath> answers;
};

job::Task<Result<void>> explain_slot(ExplainWork& work, std::size_t index) {
  ResolvedSlot& slot = work.slots.list[index];
  SPATE_CO_TRY(const auto stat, co_await stat_datafile(*slot.target, work.asker, slot.id, work.active.token()));
  const auto direction = work.request.is_write ? flow::Direction::kWrite : flow::Direction::kRead;
  const StreamParams params{direction,      work.request.path, work.request.what, *work.slots.distribution,
                            kExplainedUnit, work.peer};
  const auto chosen = co_await path_for(work.parts, slot, params, stat, true);
  wire::ExplainedPath& answer = work.answers[index];
  if (chosen) {
    answer.path = chosen->choice.path;
    answer.why = chosen->choice.why;
  } else if (chosen.code() == Errc::kNotSupported) {
    answer.why = chosen.error().context();
  } else {
    co_return chosen.error();
  }
  co_return Result<void>();
}

}  // namespace

job::Task<Result<wire::ExplainPathReply>> IoService::explain_path(rpc::Call& call, wire::ExplainPathRequest request) {
  const Rights rights = request.is_write ? Rights::kWrite : Rights::kRead;
  SPATE_CO_TRY(ClientTable::Entry* const caller,
               authorize(*parts_, call, request.where.handle, rights, CapabilityNeed::kRequired));
  SPATE_CO_TRY(Slots slots, find_slots(*parts_, call, request.where));
  ActiveRequest active(caller, call.peer->incarnation, epoch_of(call), call.stop);
  ExplainWork work{*parts_, request, asker_of(call, caller), active, slots, call.address, {}};
  work.answers.resize(slots.list.size());
  const auto refusal = bypass_refusal(*parts_, call, request.is_write);
  for (wire::ExplainedPath& answer : work.answers) answer.bypass = refusal.value_or(std::string(wire::kLeaseToBeHad));
  std::vector<job::Task<Result<void>>> tasks;
  for (std::size_t i = 0; i < slots.list.size(); ++i) tasks.push_back(explain_slot(work, i));
  SPATE_CO_TRY(std::ignore, co_await run_slots(parts_->executor, request.what, std::move(tasks), active.stop()));
  wire::ExplainPathReply reply;
  reply.slots = std::move(work.answers);
  co_return reply;
}

}  // namespace spate::io
