// SPDX-License-Identifier: Apache-2.0
#include "client/data/share.h"

#include <algorithm>
#include <numeric>

namespace spate::client {

std::uint64_t Share::total_bytes() const {
  return std::accumulate(stream_bytes.begin(), stream_bytes.end(), std::uint64_t{0});
}

Result<std::vector<Share>> make_shares(const TransferTarget& target, std::span<const std::uint32_t> slots) {
  std::vector<Share> shares;
  for (const std::uint32_t slot : slots) {
    const TargetId id = target.layout.slots[slot].targets.front();
    SPATE_TRY(rpc::Channel * channel, target.session.servers().io_channel(id));
    const TargetId group = is_group(id) ? id : TargetId();
    Share* share = nullptr;
    for (Share& candidate : shares) {
      if (candidate.channel == channel && candidate.group == group) share = &candidate;
    }
    if (share == nullptr) {
      share = &shares.emplace_back();
      share->channel = channel;
      share->group = group;
    }
    share->slots.push_back(wire::SlotRef{slot, id});
  }
  return shares;
}

std::uint32_t write_unit_bytes(const Options& options, const Share& share) {
  // Each message costs the servers 0.1 ms of processor time, so a server that has other requests of this client to work
  // on gets large ones (bench/results/2026-11-27-mirror-order.md).
  constexpr std::uint64_t kLeast = 256U * 1024;
  if (!share.group || share.channel->waiting()) return options.unit_bytes;
  const std::uint64_t longest = *std::ranges::max_element(share.stream_bytes);
  const std::uint64_t quarter = (longest / 4 + kLeast - 1) / kLeast * kLeast;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(std::max(quarter, kLeast), options.unit_bytes));
}

wire::SlotSet slot_set(const TransferTarget& target, const Share& share) {
  wire::SlotSet set;
  set.handle = target.handle;
  set.distribution = target.layout.distribution;
  set.strip_bytes = target.layout.strip_bytes;
  set.slot_count = static_cast<std::uint32_t>(target.layout.slots.size());
  set.slots = share.slots;
  return set;
}

}  // namespace spate::client
