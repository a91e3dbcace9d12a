// SPDX-License-Identifier: Apache-2.0
#include "group/message_service.h"

#include <algorithm>

namespace spate::group {
namespace {

/// A primary sends each member a message with beacons beside it; an earlier primary may have left one unfinished.
constexpr std::size_t kMostPartial = 8;

}  // namespace

MessageService::MessageService(Member& member) : member_(member) {
  serve(rpc::Access::kServersOnly, this, &MessageService::take);
}

job::Task<Result<void>> MessageService::join(rpc::Peer& /*peer*/, const wire::AuthenticateRequest& request,
                                             wire::AuthenticateReply& /*reply*/) {
  if (request.kind == wire::PeerKind::kServer || serves()) co_return Result<void>();
  co_return elsewhere();
}

job::Task<Result<void>> MessageService::pass(bool needs_copies, job::StopToken stop) {
  if (!serving_) co_return Result<void>();  // no reply can depend on the store yet
  const auto passed = co_await member_.pass(needs_copies, stop);
  if (passed) co_return Result<void>();
  if (stop.stopped() && !member_.resigned().is_set()) {
    co_return Error::told(stop.reason(), "the other members of the group did not confirm it in time");
  }
  co_return elsewhere();
}

Error MessageService::elsewhere() const {
  if (member_.revision() == 0) return Error::told(Errc::kNotPrimary, "it is not known yet which meta server leads");
  if (serves())
    return Error::told(Errc::kNotPrimary, "the other meta servers do not answer this one: another one may lead");
  const bool self = member_.leads();
  const std::string leader = "server " + std::to_string(member_.record().primary.value);
  return Error::told(Errc::kNotPrimary, self ? "this meta server begins to lead" : leader + " leads");
}

std::string MessageService::part() const {
  if (serves()) return "leads in epoch " + std::to_string(member_.record().epoch) + copies();
  if (member_.revision() == 0) return "waits for its group";
  return member_.stands_by() ? "backup" : "joining";
}

/// How many members must serve for a change, if that is more than the one that leads.
std::string MessageService::copies() const {
  const GroupRecord& record = member_.record();
  if (record.min <= 1) return "";
  const std::string wanted = "at least " + std::to_string(record.min) + " copies";
  if (record.serving() >= record.min) return ", " + wanted;
  return ", " + std::to_string(record.serving()) + " of " + wanted + ": changes wait";
}

/// The message, if this is its last part; else nothing.
Result<Bytes> MessageService::whole(wire::GroupMessageRequest& request) {
  const bool good = request.parts >= 1 && request.parts <= wire::kMostGroupParts && request.part < request.parts &&
                    request.bytes.size() <= wire::kGroupPartBytes;
  if (!good) return Error(Errc::kProtocol, "part of a group's message");
  if (request.parts == 1) return std::move(request.bytes);
  const auto has_number = [&](const Partial& partial) { return partial.message == request.message; };
  auto found = std::find_if(partial_.begin(), partial_.end(), has_number);
  if (found == partial_.end() && request.part == 0) {
    found = partial_.insert(partial_.begin(), Partial{request.message, 0, {}});
    if (partial_.size() > kMostPartial) partial_.pop_back();
  }
  if (found == partial_.end()) return Error(Errc::kProtocol, "part of a group's message that is gone");
  if (request.part + 1 == found->next && request.part + 1 < request.parts) return Bytes();  // sent again
  if (request.part != found->next) return Error(Errc::kProtocol, "part of a group's message out of order");
  found->bytes.insert(found->bytes.end(), request.bytes.begin(), request.bytes.end());
  ++found->next;
  if (found->next < request.parts) return Bytes();
  Bytes out = std::move(found->bytes);
  partial_.erase(found);
  return out;
}

job::Task<Result<wire::GroupMessageReply>> MessageService::take(rpc::Call& /*call*/,
                                                                wire::GroupMessageRequest request) {
  SPATE_CO_TRY(const Bytes bytes, whole(request));
  wire::GroupMessageReply reply;
  if (request.part + 1 < request.parts) co_return reply;
  SPATE_CO_TRY(Message message, decode_message(bytes));
  const auto shared = std::make_shared<const Message>(std::move(message));
  const Answer answer = co_await member_.answer(shared);
  reply.bytes = encode(answer);
  co_return reply;
}

}  // namespace spate::group
