// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/peers.h"

#include <array>

#include "group/timing.h"

namespace spate::io {

rpc::Channel* MirrorPeers::channel_to(ServerId server, Lane lane) {
  const ServerEntry* const entry = map_.find_server(server);
  if (entry == nullptr) return nullptr;
  auto& channel = channels_[{server, lane}];
  if (channel == nullptr) {
    rpc::ChannelOptions options;
    options.urls = entry->urls;
    options.server = server;
    options.longest_backoff = group::Timing().beacon;  // it may be back at any moment
    if (lane == Lane::kBeacons) options.attempt_timeout = group::Timing().message;
    channel = std::make_unique<rpc::Channel>(std::move(options), network_, identity_, random_);
  }
  return channel.get();
}

void MirrorBulk::post(bmi::Address peer, bmi::Tag reply_tag, const std::shared_ptr<wire::BulkSeals>& seals) {
  const bmi::Tag tag(reply_tag.value + 1);
  if (seals != nullptr) code_ = seals->seal(tag.value, 0, {&data_, 1});
  // A send only reads the memory.
  const MutableByteView from(const_cast<std::byte*>(data_.data()), data_.size());
  const std::array<bmi::Segment, 2> whole{bmi::Segment::of(MutableByteView(code_)), bmi::Segment::of(from)};
  bmi::Message message;
  message.peer = peer;
  message.tag = tag;
  message.message_class = bmi::MessageClass::kBulk;
  message.segments = seals != nullptr ? bmi::SegmentList(whole) : bmi::SegmentList(&whole[1], 1);
  op_.emplace(network_).post_send(message);
}

job::Task<void> MirrorBulk::abandon() {
  if (!op_) co_return;
  op_->cancel();
  std::ignore = co_await op_->wait();
  op_.reset();
}

}  // namespace spate::io
