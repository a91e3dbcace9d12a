// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/forwarder.h"

#include "job/run_all.h"
#include "log/fields.h"
#include "log/log.h"

namespace spate::io {
namespace {

constexpr Duration kAskAgain = std::chrono::milliseconds(20);
constexpr std::uint32_t kForwardRoom = 2048;  // of a reply

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

}  // namespace

bool is_refusal(Errc status) {
  return status == Errc::kNoSpace || status == Errc::kFileTooBig || status == Errc::kInvalidArgument ||
         status == Errc::kNotSupported;
}

Forwarder::Forwarder(MirrorHost& host, MirrorGroup& group, std::uint64_t term, job::StopSource& stopping,
                     job::Gate& gate)
    : parts_(host.parts()),
      host_(host),
      group_(group),
      term_(term),
      stopping_(stopping),
      gate_(gate),
      one_ended_(parts_.executor),
      window_(group.log.newest_window() + 1) {}

job::Task<Result<void>> Forwarder::wait_until_done() {
  const std::uint64_t first_after = next_number_;
  while (done_below() < first_after) {
    SPATE_CO_TRY(std::ignore, co_await one_ended_.wait(stopping_));
  }
  co_return Result<void>();
}

wire::MirrorForwardRequest Forwarder::message(DatafileId datafile, wire::MirrorChange change) const {
  wire::MirrorForwardRequest request;
  request.group = group_.id;
  request.term = term_;
  request.window = window_;
  request.handle = datafile.handle;
  request.slot = datafile.slot;
  request.change = change;
  return request;
}

bool Forwarder::counts(const MirrorFollower& follower) const {
  if (follower.gone.stopped() || stopping_.stopped()) return false;
  if (follower.state == MemberState::kServing || follower.promoted) return true;
  return follower.state == MemberState::kJoining && follower.follows && !follower.failed;
}

job::Task<Result<void>> Forwarder::tell(const wire::MirrorForwardRequest& request, ByteView data, TraceId trace) {
  const Message message{request, data, Refusal::kFails, trace};
  auto told = co_await tell_members(message, nullptr);
  co_return told;
}

job::Task<Result<void>> Forwarder::tell_copy(const wire::MirrorForwardRequest& request, ByteView data,
                                             MirrorFollowerPtr only, Refusal refusal) {
  const Message message{request, data, refusal, {}};
  auto told = co_await tell_members(message, only);
  co_return told;
}

job::Task<Result<void>> Forwarder::tell_members(Message message, MirrorFollowerPtr only) {
  std::vector<MirrorFollowerPtr> all;
  for (const auto& [target, follower] : followers_) {
    if (counts(*follower) && (only == nullptr || only == follower)) all.push_back(follower);
  }
  if (all.size() == 1) {
    auto told = co_await tell_one(all.front(), message);
    co_return told;
  }
  std::vector<job::Task<Result<void>>> tasks;
  for (const MirrorFollowerPtr& follower : all) tasks.push_back(tell_one(follower, message));
  auto told = co_await job::run_all(parts_.executor, std::move(tasks));
  co_return told;
}

job::Task<Result<void>> Forwarder::tell_one(MirrorFollowerPtr follower, Message message) {
  const ByteView data = message.data;
  const MonoTime deadline = parts_.executor.now() + host_.timing().stalled;
  while (counts(*follower)) {
    wire::MirrorForwardRequest mine = message.request;
    mine.epoch = group_.record.epoch;
    mine.done_below = done_below();
    MirrorBulk bulk(host_.peers().network(), data);
    rpc::CallOptions options;
    options.deadline = deadline;
    options.priority = wire::Priority::kControl;
    options.stop = follower->gone;
    options.reply_room = kForwardRoom;
    options.trace = message.trace;
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
      const bool joins = follower->state == MemberState::kJoining && message.refusal != Refusal::kFailsAlways;
      const bool refuses = is_refusal(reply->status) && !joins;
      if (refuses && message.refusal != Refusal::kLeavesOut) co_return Error(reply->status);
      co_await evict(follower, refuses ? "its copy cannot be made equal" : "it could not make a change");
    } else if (reply) {
      if (reply->verdict != wire::MirrorVerdict::kNotYet) host_.contradicted();
      const auto slept = co_await parts_.executor.sleep(kAskAgain, follower->gone);
      if (!slept) break;
      if (parts_.executor.now() >= deadline) co_await evict(follower, "it does not accept the record");
    } else if (follower->state == MemberState::kJoining || parts_.executor.now() >= deadline) {
      co_await evict(follower, "it does not take a change");
    } else {
      const auto slept = co_await parts_.executor.sleep(kAskAgain, follower->gone);
      if (!slept) break;
    }
  }
  co_return Result<void>();
}

job::Task<void> Forwarder::evict(MirrorFollowerPtr follower, const char* why) {
  if (follower->state == MemberState::kJoining && !follower->promoted) {
    follower->failed = true;  // nobody depends on it, and its return will end
    co_return;
  }
  co_await leave_out(std::move(follower), why);
}

job::Task<void> Forwarder::leave_out(MirrorFollowerPtr follower, const char* why) {
  SPATE_LOG("server/io", warn, "a member of a group is left out: {} group={} target={}", why, group_.id,
            follower->target);
  MirrorHost::RecordChange what;
  what.members.push_back({follower->target, MemberState::kAbsent});
  co_await host_.change_record(group_, std::move(what), stopping_);
  follower->leaves = false;
}

}  // namespace spate::io
