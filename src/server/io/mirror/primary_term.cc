// SPDX-License-Identifier: Apache-2.0
// Changes of datafiles: in order, on all members, the primary's own copy last.
#include "server/io/mirror/primary_term.h"

#include <algorithm>
#include <limits>

#include "job/deadline.h"
#include "job/run_all.h"
#include "log/fields.h"
#include "log/log.h"
#include "model/defect.h"
#include "server/io/target.h"

namespace spate::io {
namespace {

Error not_primary(const MirrorGroup& group) {
  return Error::told(Errc::kNotPrimary, "this server does not lead group " + std::to_string(group.id.value) + " now");
}

/// The range that the change concerns: the hull of its extents, or the whole datafile.
RangeLocks::Range range_of(const trove::BytestreamRequest& request) {
  using trove::BytestreamOp;
  if (request.op == BytestreamOp::kTruncate || request.op == BytestreamOp::kRemove) return {};
  RangeLocks::Range range{~std::uint64_t{0}, 0};
  for (const Extent& extent : request.extents) {
    range.begin = std::min(range.begin, extent.offset);
    range.end = std::max(range.end, extent.offset + extent.size);
  }
  if (range.begin >= range.end) range.begin = range.end = 0;
  if (request.extend) range.end = std::numeric_limits<std::uint64_t>::max();  // it moves the datafile's end
  return range;
}

wire::MirrorChange change_of(trove::BytestreamOp op) {
  switch (op) {
    case trove::BytestreamOp::kPunch: return wire::MirrorChange::kPunch;
    case trove::BytestreamOp::kAllocate: return wire::MirrorChange::kAllocate;
    case trove::BytestreamOp::kTruncate: return wire::MirrorChange::kTruncate;
    case trove::BytestreamOp::kRemove: return wire::MirrorChange::kRemove;
    default: return wire::MirrorChange::kWrite;
  }
}

}  // namespace

PrimaryTerm::PrimaryTerm(MirrorHost& host, MirrorGroup& group, std::uint64_t number)
    : parts_(host.parts()),
      host_(host),
      group_(group),
      number_(number),
      locks_(parts_.executor),
      gate_(parts_.executor),
      forwarder_(host, group, number, stopping_, gate_),
      copier_(host, group, locks_, forwarder_, stopping_) {}

bool PrimaryTerm::leads() const {
  if (!open_ || stopping_.stopped() || !group_.is_primary()) return false;
  const group::Timing& timing = host_.timing();
  const Duration lease = planted(Defect::kLongLease) ? timing.grace + timing.stalled : timing.lease;
  const MonoTime now = parts_.executor.now();
  for (const auto& [target, follower] : forwarder_.followers()) {
    const bool required = follower->state == MemberState::kServing || follower->promoted;
    if (required && (follower->acknowledged < MonoTime() || follower->acknowledged + lease <= now)) return false;
  }
  return true;
}

Result<void> PrimaryTerm::check() const {
  if (leads()) return {};
  return not_primary(group_);
}

wire::MirrorForwardRequest PrimaryTerm::message_of(const trove::BytestreamRequest& request,
                                                   const MirrorExtras& extras) {
  wire::MirrorForwardRequest out = forwarder_.message(request.id, change_of(request.op));
  out.extents.reserve(request.extents.size());
  for (const Extent& extent : request.extents) out.extents.push_back({extent.offset, extent.size});
  out.extend = request.extend;
  out.size = request.size;
  out.truncate_generation = extras.truncate_generation;
  out.time = out.change == wire::MirrorChange::kRemove ? extras.tombstone_until : request.now;
  return out;
}

job::Task<Result<void>> PrimaryTerm::note(const trove::BytestreamRequest& request) {
  Result<void> noted;
  if (request.op == trove::BytestreamOp::kTruncate) {
    noted = co_await group_.log.note_from(request.id, request.size, forwarder_.window());
  } else if (request.op == trove::BytestreamOp::kRemove) {
    noted = co_await group_.log.note_from(request.id, 0, forwarder_.window());
  } else {
    noted = co_await group_.log.note(request.id, request.extents, forwarder_.window());
  }
  co_return noted;
}

job::Task<Result<trove::BytestreamCompletion>> PrimaryTerm::change(trove::BytestreamRequest request,
                                                                   MirrorExtras extras, flow::Asker asker,
                                                                   job::StopToken stop) {
  const RangeLocks::Range range = range_of(request);
  SPATE_CO_TRY(RangeLocks::Hold hold, co_await locks_.take(request.id, range, stop));
  SPATE_CO_TRY(std::ignore, check());
  if (group_.record.serving() < group_.record.min)
    co_return Error::told(Errc::kNotPrimary,
                          "too few members of the group serve: changes are refused until more serve");
  const Forwarder::Running running(forwarder_);
  // The note is made in the present window: the window is not closed while this runs.
  SPATE_CO_TRY(std::ignore, co_await note(request));
  SPATE_CO_TRY(std::ignore, check());  // may have changed
  wire::MirrorForwardRequest message = message_of(request, extras);
  message.number = running.number();
  ByteView data;
  if (!request.memory.empty()) data = request.memory.front();
  Result<trove::BytestreamCompletion> own = Errc::kCancelled;
  if (planted(Defect::kOwnCopyFirst)) own = co_await run_op(group_.target, asker, request, {});
  auto told = co_await forwarder_.tell(message, data, nullptr, asker.trace);
  if (stopping_.stopped()) co_return not_primary(group_);
  if (told && !planted(Defect::kOwnCopyFirst)) own = co_await run_op(group_.target, asker, request, {});
  if (told && own) co_return own;
  // Some members may have changed their copies, others not.
  const Errc why = told ? own.code() : told.code();
  hold = RangeLocks::Hold();
  if (told && !is_refusal(why)) {
    co_await step_down(why);
    if (!group_.is_primary()) co_return not_primary(group_);
  }
  SPATE_CO_TRY(std::ignore, co_await mend(request.id, range));
  co_return told ? own.error() : told.error();
}

job::Task<Result<void>> PrimaryTerm::sync_mirrors(DatafileId datafile, TraceId trace) {
  SPATE_CO_TRY(std::ignore, check());
  const Forwarder::Running running(forwarder_);
  wire::MirrorForwardRequest request = forwarder_.message(datafile, wire::MirrorChange::kSync);
  request.number = running.number();
  std::vector<job::Task<Result<void>>> tasks;
  tasks.push_back(forwarder_.tell(request, {}, nullptr, trace));
  // A member that is away, or lacks all data, is given what this member's notes and list name.
  if (!planted(Defect::kNotesNotSynced)) tasks.push_back(group_.log.make_durable());
  SPATE_CO_TRY(std::ignore, co_await job::run_all(parts_.executor, std::move(tasks)));
  auto led = check();
  co_return led;
}

/// Makes another member the primary, because this member's own copy takes no changes any more.
job::Task<void> PrimaryTerm::step_down(Errc why) {
  for (const auto& [target, follower] : forwarder_.followers()) {
    if (follower->state != MemberState::kServing) continue;
    SPATE_LOG("server/io", error,
              "another member of the group becomes the primary: own target failed group={} error={}", group_.id,
              name(why));
    MirrorHost::RecordChange what;
    what.members.push_back({group_.self, MemberState::kAbsent});
    what.primary = target;
    co_await host_.change_record(group_, std::move(what), stopping_);
    co_return;
  }
}

}  // namespace spate::io
