// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/member.h"

#include <algorithm>
#include <array>

#include "model/defect.h"
#include "server/io/mirror/member_changes.h"
#include "server/io/store.h"

namespace spate::io {

using wire::MirrorVerdict;

namespace {

constexpr std::uint64_t kMirrorBuffers = 64ULL << 20U;

/// Whether the call is of the server whose target is the primary of this record.
bool leads(const rpc::Call& call, const DataGroup& record) { return call.peer->server == server_of(record.primary); }

}  // namespace

MirrorMember::MirrorMember(MirrorHost& host, Parts& parts, job::StopSource& stopping, metrics::Registry& metrics)
    : host_(host),
      parts_(parts),
      stopping_(stopping),
      pool_(parts.flow.network.network(), parts.executor, {kMirrorBuffers, flow::kMaxBufferBytes, "mirrors"}, metrics) {
}

std::uint8_t MirrorMember::flags_of(const MirrorGroup& group) const {
  std::uint8_t flags = 0;
  if (host_.is_leaving()) flags |= wire::BeaconAnswer::kLeaves;
  const bool counts = group.serves() || (group.half_joined && group.state_of(group.self) == MemberState::kJoining);
  if (group.fresh && counts) flags |= wire::BeaconAnswer::kFresh;
  if (group.lacks_all) flags |= wire::BeaconAnswer::kLacksAll;
  return flags;
}

job::Task<wire::MirrorBeaconReply> MirrorMember::take(const rpc::Call& call, wire::MirrorBeaconRequest request) {
  wire::MirrorBeaconReply reply;
  for (const wire::BeaconGroup& beacon : request.groups) reply.groups.push_back(answer_beacon(call, beacon));
  co_return reply;
}

wire::BeaconAnswer MirrorMember::answer_beacon(const rpc::Call& call, const wire::BeaconGroup& beacon) {
  wire::BeaconAnswer answer;
  const MirrorGroup* const known = host_.find(beacon.record.id);
  if (known != nullptr && beacon.record.epoch < known->record.epoch) {
    answer.flags = wire::BeaconAnswer::kKnowsLater;
    return answer;
  }
  if (!leads(call, beacon.record)) return answer;
  MirrorGroup* const group = host_.learn(beacon.record);
  if (group == nullptr) return answer;
  answer.flags = flags_of(*group);
  const bool accuses = group->accusing && !planted(Defect::kLateAcknowledgment);
  if (accuses || group->is_primary() || beacon.term == 0) return answer;
  group->heard = parts_.executor.now();
  if (beacon.term == group->term_taken) group->taken.done_below(beacon.done_below);
  if ((answer.flags & wire::BeaconAnswer::kFresh) != 0) return answer;
  group->acknowledged = parts_.executor.now();
  answer.flags |= wire::BeaconAnswer::kAcknowledged;
  return answer;
}

job::Task<wire::MirrorObeyReply> MirrorMember::take(const rpc::Call& call, wire::MirrorObeyRequest request) {
  wire::MirrorObeyReply reply;
  reply.verdict = MirrorVerdict::kStranger;
  // A former primary, too, may say which member is the primary now.
  const MirrorGroup* const known = host_.find(request.record.id);
  if (!leads(call, request.record) && (known == nullptr || !leads(call, known->record))) co_return reply;
  MirrorGroup* const group = host_.learn(request.record);
  if (group == nullptr) co_return reply;
  if (!group->accusing) std::ignore = co_await host_.accept(*group);
  reply.flags = flags_of(*group);
  const std::uint64_t epoch = request.record.epoch;
  reply.verdict = MirrorVerdict::kNotYet;
  if (group->accusing || group->record.epoch > epoch) reply.verdict = MirrorVerdict::kOld;
  if (group->accusing || group->accepted != epoch || group->is_primary()) co_return reply;
  reply.verdict = MirrorVerdict::kDone;
  if (request.term > group->term_taken) {
    group->doubtful = group->taken.doubtful();
    if (group->doubtful.size() > wire::kMaxMirrorRegions) {
      for (ChangedRegion& region : group->doubtful) region = {region.datafile, true, 0};
      const auto repeated = std::ranges::unique(group->doubtful);
      group->doubtful.erase(repeated.begin(), repeated.end());
    }
    group->taken.clear();
    group->term_taken = request.term;
  }
  for (const ChangedRegion& region : group->doubtful)
    reply.doubtful.push_back({region.datafile.handle, region.datafile.slot, region.region, region.to_the_end});
  co_return reply;
}

MirrorGroup* MirrorMember::accepting(const rpc::Call& call, TargetId id, std::uint64_t epoch, MirrorVerdict& why) {
  MirrorGroup* const group = host_.find(id);
  why = MirrorVerdict::kStranger;
  if (group == nullptr) return nullptr;
  if (planted(Defect::kEpochUnchecked)) return group;
  why = MirrorVerdict::kOld;
  const bool absent = group->state_of(group->self) == MemberState::kAbsent;
  const bool accuses = group->accusing && !planted(Defect::kLateAcknowledgment);
  if (accuses || epoch < group->accepted || group->fresh) return nullptr;
  if (epoch == group->accepted && (group->is_primary() || absent)) return nullptr;
  why = MirrorVerdict::kNotYet;
  if (group->accepting || epoch > group->accepted || epoch < group->record.epoch) return nullptr;
  why = MirrorVerdict::kStranger;
  if (!leads(call, group->record)) return nullptr;
  return group;
}

/// Receives the message of bulk data that comes with a forwarded write.
job::Task<Result<flow::PooledBuffer>> MirrorMember::receive(const rpc::Call& call, std::uint64_t bytes) {
  flow::BufferPool& pool = planted(Defect::kClientsBuffers) ? parts_.pool : pool_;
  SPATE_CO_TRY(flow::PooledBuffer buffer,
               co_await pool.acquire(ClientId(), std::max(bytes, flow::kMinUnitBytes), call.stop));
  const std::shared_ptr<wire::BulkSeals> seals = call.peer->bulk_seals;
  wire::BulkSeals::Code code{};
  const MutableByteView room = buffer.view().first(bytes);
  const std::array<bmi::Segment, 2> whole{bmi::Segment::of(MutableByteView(code)), bmi::Segment::of(room)};
  bmi::Message message;
  message.peer = call.address;
  message.tag = bmi::Tag(call.tag.value + 1);
  message.message_class = bmi::MessageClass::kBulk;
  message.segments = seals != nullptr ? bmi::SegmentList(whole) : bmi::SegmentList(&whole[1], 1);
  job::NetworkOp op(parts_.flow.network);
  op.post_recv(message);
  SPATE_CO_TRY(const std::uint64_t size, co_await op.wait(call.stop));
  if (size != bytes + (seals != nullptr ? wire::BulkSeals::kSize : 0))
    co_return Error(Errc::kProtocol, "a bulk message is shorter than the request says");
  const ByteView data(room);
  if (seals != nullptr && !seals->genuine(message.tag.value, 0, {&data, 1}, code))
    co_return wire::altered_bulk_message();
  co_return std::move(buffer);
}

job::Task<wire::MirrorForwardReply> MirrorMember::take(const rpc::Call& call, wire::MirrorForwardRequest request) {
  wire::MirrorForwardReply reply;
  MirrorGroup* group = accepting(call, request, reply.verdict);
  if (group == nullptr) co_return reply;
  flow::PooledBuffer buffer;
  ByteView data(request.data);
  const bool seen = request.term == group->term_taken &&
                    (group->taken.is_past(request.number) || group->taken.find(request.number) != nullptr);
  const auto good = check_forward(request);
  if (good && request.bulk_bytes > 0 && !seen) {
    auto received = co_await receive(call, request.bulk_bytes);
    if (!received) {
      reply.verdict = MirrorVerdict::kNotYet;
      co_return reply;
    }
    buffer = *std::move(received);
    data = ByteView(buffer.view()).first(request.bulk_bytes);
    group = accepting(call, request, reply.verdict);  // may have changed
    if (group == nullptr) co_return reply;
  }
  if (request.term != group->term_taken && !planted(Defect::kEpochUnchecked)) {
    reply.verdict = request.term < group->term_taken ? MirrorVerdict::kOld : MirrorVerdict::kNotYet;
    co_return reply;
  }
  reply.verdict = MirrorVerdict::kDone;
  reply.epoch = group->accepted;
  group->taken.done_below(request.done_below);
  reply.status = good.code();
  if (good) reply.status = co_await carry_out_once(*group, request, data);
  co_return reply;
}

job::Task<Errc> MirrorMember::carry_out_once(MirrorGroup& group, const wire::MirrorForwardRequest& request,
                                             ByteView data) {
  if (group.taken.is_past(request.number)) co_return Errc::kOk;
  if (const auto earlier = group.taken.find(request.number)) {
    std::ignore = co_await earlier->ended.wait();
    co_return earlier->status;
  }
  const auto change = group.taken.begin(request.number, first_region(request), last_region(request));
  const auto done = co_await carry_out_forward(parts_, group, request, data);
  group.taken.end(*change, done.code());
  co_return done.code();
}

wire::MirrorRecordsReply MirrorMember::take(const rpc::Call& call, const wire::MirrorRecordsRequest& request) {
  wire::MirrorRecordsReply reply;
  const MirrorGroup* const group = accepting(call, request, reply.verdict);
  if (group == nullptr) return reply;
  reply.verdict = MirrorVerdict::kDone;
  std::optional<ChangedRegion> after;
  if (request.after)
    after =
        ChangedRegion{{request.after->handle, request.after->slot}, request.after->to_the_end, request.after->region};
  for (const ChangedRegion& region : group->log.page(after, wire::kMaxMirrorRegions))
    reply.regions.push_back({region.datafile.handle, region.datafile.slot, region.region, region.to_the_end});
  reply.more = reply.regions.size() == wire::kMaxMirrorRegions;
  return reply;
}

job::Task<wire::MirrorWindowReply> MirrorMember::take(const rpc::Call& call, wire::MirrorWindowRequest request) {
  wire::MirrorWindowReply reply;
  MirrorGroup* const group = accepting(call, request, reply.verdict);
  if (group == nullptr) co_return reply;
  reply.verdict = MirrorVerdict::kDone;
  reply.epoch = group->accepted;
  Result<void> done;
  if (request.forget) {
    done = co_await group->log.forget(request.up_to);
  } else {
    done = co_await sync_noted(parts_, *group, request.up_to, stopping_);
  }
  reply.status = done.code();
  co_return reply;
}

job::Task<wire::MirrorFencesReply> MirrorMember::take(const rpc::Call& call, wire::MirrorFencesRequest request) {
  wire::MirrorFencesReply reply;
  MirrorGroup* const group = accepting(call, request, reply.verdict);
  if (group == nullptr) co_return reply;
  reply.verdict = MirrorVerdict::kDone;
  for (const wire::ClientFence& fence : request.fences) {
    ClientTable::Entry* const entry = parts_.clients.find(fence.client);
    if (entry != nullptr) entry->lowest_epoch = std::max(entry->lowest_epoch, fence.lowest_epoch);
  }
  const auto stored = co_await store_fences(parts_, request.fences);
  reply.status = stored.code();
  co_return reply;
}

}  // namespace spate::io
