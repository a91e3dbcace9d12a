// SPDX-License-Identifier: Apache-2.0
#include "client/data/share.h"

#include <numeric>

namespace spate::client {
namespace {

job::Task<void> keep_first_error(job::Task<Result<void>> task, Result<void>& first) {
  auto result = co_await std::move(task);
  if (!result && first) first = std::move(result);
}

}  // namespace

std::uint64_t Share::total_bytes() const {
  return std::accumulate(stream_bytes.begin(), stream_bytes.end(), std::uint64_t{0});
}

Result<std::vector<Share>> make_shares(const TransferTarget& target, std::span<const std::uint32_t> slots) {
  std::vector<Share> shares;
  for (const std::uint32_t slot : slots) {
    const TargetId id = target.layout.slots[slot].targets.front();
    SPATE_TRY(rpc::Channel * channel, target.cluster.io_channel(id));
    Share* share = nullptr;
    for (Share& candidate : shares) {
      if (candidate.channel == channel) share = &candidate;
    }
    if (share == nullptr) {
      share = &shares.emplace_back();
      share->channel = channel;
    }
    share->slots.push_back(wire::SlotRef{slot, id});
  }
  return shares;
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

job::Task<Result<void>> run_shares(job::Executor& executor, std::vector<job::Task<Result<void>>> tasks) {
  if (tasks.size() == 1) {  // the common small request: no gate
    auto result = co_await std::move(tasks.front());
    co_return result;
  }
  Result<void> first;
  job::Gate gate(executor);
  for (auto& task : tasks) job::spawn(gate, keep_first_error(std::move(task), first));
  co_await gate.close();
  co_return first;
}

}  // namespace spate::client
