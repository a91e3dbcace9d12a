// SPDX-License-Identifier: Apache-2.0
// Changes of datafiles: in order, on all members, the primary's own copy last.
#include "server/io/mirror/reign.h"

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

constexpr Duration kAskAgain = std::chrono::milliseconds(20);
constexpr std::uint32_t kForwardRoom = 2048;  // of a reply

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

/// The encoded request, whose data are `data`. Copies them once; the request itself has none.
Bytes encode_forward(const wire::MirrorForwardRequest& request, ByteView data) {
  constexpr std::size_t kHead = 160;  // without extents; room for more than it has
  Bytes out;
  out.reserve(kHead + request.extents.size() * sizeof(wire::MirrorRange) + data.size());
  wire::encode_body(request, out);
  Encoder(out).patch_u32(out.size() - 4, static_cast<std::uint32_t>(data.size()));  // the data's length comes last
  out.insert(out.end(), data.begin(), data.end());
  return out;
}

/// Failures that are no fault of the member: the change fails, and the member stays.
bool is_refusal(Errc status) {
  return status == Errc::kNoSpace || status == Errc::kFileTooBig || status == Errc::kInvalidArgument ||
         status == Errc::kNotSupported;
}

}  // namespace

Reign::Reign(MirrorHost& host, MirrorGroup& group, std::uint64_t number)
    : parts_(host.parts()),
      host_(host),
      group_(group),
      number_(number),
      locks_(parts_.executor),
      one_ended_(parts_.executor),
      window_(group.log.newest_window() + 1),
      gate_(parts_.executor) {}

bool Reign::leads() const {
  if (!open_ || stopping_.stopped() || !group_.is_primary()) return false;
  const group::Timing& timing = host_.timing();
  const Duration lease = planted(Defect::kLongLease) ? timing.grace + timing.stalled : timing.lease;
  const MonoTime now = parts_.executor.now();
  for (const auto& [target, follower] : followers_) {
    const bool required = follower->state == MemberState::kServing || follower->promoted;
    if (required && (follower->acknowledged < MonoTime() || follower->acknowledged + lease <= now)) return false;
  }
  return true;
}

Result<void> Reign::check() const {
  if (leads()) return {};
  return not_primary(group_);
}

wire::MirrorForwardRequest Reign::message(DatafileId datafile, wire::MirrorChange change) const {
  wire::MirrorForwardRequest request;
  request.group = group_.id;
  request.reign = number_;
  request.window = window_;
  request.handle = datafile.handle;
  request.slot = datafile.slot;
  request.change = change;
  return request;
}

wire::MirrorForwardRequest Reign::message_of(const trove::BytestreamRequest& request, const MirrorExtras& extras) {
  wire::MirrorForwardRequest out = message(request.id, change_of(request.op));
  out.extents.reserve(request.extents.size());
  for (const Extent& extent : request.extents) out.extents.push_back({extent.offset, extent.size});
  out.extend = request.extend;
  out.size = request.size;
  out.truncate_generation = extras.truncate_generation;
  out.time = out.change == wire::MirrorChange::kRemove ? extras.tombstone_until : request.now;
  return out;
}

job::Task<Result<void>> Reign::note(const trove::BytestreamRequest& request) {
  Result<void> noted;
  if (request.op == trove::BytestreamOp::kTruncate) {
    noted = co_await group_.log.note_from(request.id, request.size, window_);
  } else if (request.op == trove::BytestreamOp::kRemove) {
    noted = co_await group_.log.note_from(request.id, 0, window_);
  } else {
    noted = co_await group_.log.note(request.id, request.extents, window_);
  }
  co_return noted;
}

job::Task<Result<trove::BytestreamCompletion>> Reign::change(trove::BytestreamRequest request, MirrorExtras extras,
                                                             flow::Asker asker, job::StopToken stop) {
  const RangeLocks::Range range = range_of(request);
  SPATE_CO_TRY(RangeLocks::Hold hold, co_await locks_.take(request.id, range, stop));
  SPATE_CO_TRY(std::ignore, check());
  if (group_.record.serving() < group_.record.min)
    co_return Error::told(Errc::kNotPrimary,
                          "too few members of the group serve: changes are refused until more serve");
  const Running running(*this);
  // The note is made in the present window: the window is not closed while this runs.
  SPATE_CO_TRY(std::ignore, co_await note(request));
  SPATE_CO_TRY(std::ignore, check());  // may have changed
  wire::MirrorForwardRequest message = message_of(request, extras);
  message.number = running.number();
  ByteView data;
  if (!request.memory.empty()) data = request.memory.front();
  Result<trove::BytestreamCompletion> own = Errc::kCancelled;
  if (planted(Defect::kOwnCopyFirst)) own = co_await run_op(group_.target, asker, request, {});
  auto told = co_await tell(message, data, nullptr, asker.trace);
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

job::Task<Result<void>> Reign::sync_others(DatafileId datafile, TraceId trace) {
  SPATE_CO_TRY(std::ignore, check());
  const Running running(*this);
  wire::MirrorForwardRequest request = message(datafile, wire::MirrorChange::kSync);
  request.number = running.number();
  SPATE_CO_TRY(std::ignore, co_await tell(request, {}, nullptr, trace));
  auto led = check();
  co_return led;
}

/// Whether a change waits for this member.
bool Reign::counts(const MirrorFollower& follower) const {
  if (follower.gone.stopped() || stopping_.stopped()) return false;
  if (follower.state == MemberState::kServing || follower.promoted) return true;
  return follower.state == MemberState::kJoining && follower.follows && !follower.failed;
}

job::Task<Result<void>> Reign::tell(const wire::MirrorForwardRequest& request, ByteView data, MirrorFollowerPtr only,
                                    TraceId trace) {
  std::vector<MirrorFollowerPtr> all;
  for (const auto& [target, follower] : followers_) {
    if (counts(*follower) && (only == nullptr || only == follower)) all.push_back(follower);
  }
  if (all.size() == 1) {
    auto told = co_await tell_one(all.front(), request, data, trace);
    co_return told;
  }
  std::vector<job::Task<Result<void>>> tasks;
  for (const MirrorFollowerPtr& follower : all) tasks.push_back(tell_one(follower, request, data, trace));
  auto told = co_await job::run_all(parts_.executor, std::move(tasks));
  co_return told;
}

job::Task<Result<void>> Reign::tell_one(MirrorFollowerPtr follower, const wire::MirrorForwardRequest& request,
                                        ByteView data, TraceId trace) {
  const MonoTime patience = parts_.executor.now() + host_.timing().stalled;
  while (counts(*follower)) {
    wire::MirrorForwardRequest mine = request;
    mine.epoch = group_.record.epoch;
    mine.done_below = done_below();
    MirrorBulk bulk(host_.peers().network(), data);
    rpc::CallOptions options;
    options.deadline = patience;
    options.priority = wire::Priority::kControl;
    options.stop = follower->gone;
    options.reply_room = kForwardRoom;
    options.trace = trace;
    const bool in_bulk = data.size() > wire::kMirrorInlineBytes;
    if (in_bulk) mine.bulk_bytes = data.size();
    if (in_bulk) options.bulk = &bulk;
    const Bytes body = encode_forward(mine, in_bulk ? ByteView() : data);
    const auto reply = co_await host_.peers().call_encoded<wire::MirrorForwardReply>(
        follower->server, MirrorPeers::Lane::kData, wire::Op::kMirrorForward, body, options);
    co_await bulk.abandon();
    if (!counts(*follower)) break;  // may have changed
    if (reply && reply->verdict == wire::MirrorVerdict::kDone) {
      if (reply->status == Errc::kOk) co_return Result<void>();
      if (is_refusal(reply->status) && follower->state != MemberState::kJoining) co_return Error(reply->status);
      co_await evict(follower, "it could not make a change");
    } else if (reply) {
      if (reply->verdict != wire::MirrorVerdict::kNotYet) host_.contradicted();
      const auto slept = co_await parts_.executor.sleep(kAskAgain, follower->gone);
      if (!slept) break;
      if (parts_.executor.now() >= patience) co_await evict(follower, "it does not obey");
    } else if (follower->state == MemberState::kJoining || parts_.executor.now() >= patience) {
      co_await evict(follower, "it does not take a change");
    } else {
      const auto slept = co_await parts_.executor.sleep(kAskAgain, follower->gone);
      if (!slept) break;
    }
  }
  co_return Result<void>();
}

/// Ends when the member is absent, or when this process is no longer the primary.
job::Task<void> Reign::evict(MirrorFollowerPtr follower, const char* why) {
  if (follower->state == MemberState::kJoining && !follower->promoted) {
    follower->failed = true;  // nobody depends on it, and its return will end
    co_return;
  }
  co_await leave_out(std::move(follower), why);
}

/// Makes another member the primary, because this member's own copy takes no changes any more.
job::Task<void> Reign::step_down(Errc why) {
  for (const auto& [target, follower] : followers_) {
    if (follower->state != MemberState::kServing) continue;
    SPATE_LOG("server/io", error,
              "another member of the group becomes the primary: own target failed group={} error={}", group_.id,
              name(why));
    MirrorHost::Alteration what;
    what.members.push_back({group_.self, MemberState::kAbsent});
    what.primary = target;
    co_await host_.alter(group_, std::move(what), stopping_);
    co_return;
  }
}

}  // namespace spate::io
