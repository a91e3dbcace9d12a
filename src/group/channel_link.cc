// SPDX-License-Identifier: Apache-2.0
#include "group/channel_link.h"

#include <algorithm>

#include "group/timing.h"
#include "wire/group_messages.h"

namespace spate::group {

ChannelLink::ChannelLink(ChannelLinkOptions options, job::NetworkContext& network, Random& random)
    : network_(network), number_(random.next()) {
  identity_.kind = wire::PeerKind::kServer;
  identity_.fs = options.fs;
  identity_.key = options.server_key;
  identity_.policy = options.handshake;
  identity_.description = options.description;
  for (ChannelLinkOptions::Member& member : options.members) {
    rpc::ChannelOptions channel;
    channel.urls = std::move(member.urls);
    channel.server = member.server;
    channel.attempt_timeout = Timing().copy_message;  // send() has a deadline for each message
    channel.longest_backoff = Timing().beacon;        // the member may be back at any moment
    channels_.emplace(member.server, std::make_unique<rpc::Channel>(std::move(channel), network_, identity_, random));
  }
}

job::Task<Result<Answer>> ChannelLink::send(ServerId to, std::shared_ptr<const Message> message, Duration timeout,
                                            job::StopToken stop) {
  const auto found = channels_.find(to);
  if (found == channels_.end()) co_return Error(Errc::kNotFound, "a member that spate.toml does not name");
  rpc::Channel& channel = *found->second;
  const Bytes whole = encode(*message);
  wire::GroupMessageRequest request;
  request.message = ++number_;
  request.parts = static_cast<std::uint32_t>(whole.size() / wire::kGroupPartBytes + 1);
  if (request.parts > wire::kMostGroupParts) co_return Error(Errc::kMessageTooBig, "message of a group");
  rpc::CallOptions options;
  options.deadline = network_.executor().now() + timeout;
  options.priority = wire::Priority::kControl;
  options.stop = stop;
  options.trace = TraceId(request.message);
  for (;; ++request.part) {
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(request.part * wire::kGroupPartBytes);
    const auto left = static_cast<std::size_t>(whole.end() - begin);
    request.bytes.assign(begin, begin + static_cast<std::ptrdiff_t>(std::min(left, wire::kGroupPartBytes)));
    SPATE_CO_TRY(auto reply, co_await channel.call<wire::GroupMessageReply>(request, options));
    if (request.part + 1 == request.parts) co_return decode_answer(reply.bytes);
  }
}

}  // namespace spate::group
