// SPDX-License-Identifier: Apache-2.0
#include "bmi/sim/links.h"

#include <utility>

namespace spate::bmi::sim {

bool Links::blocked(NetworkInterface from, NetworkInterface to) const {
  return cut_.contains({from.node, to.node}) || (from.node != to.node && (stalled_.contains(from.path)));
}

Duration Links::delay(NetworkInterface from, NetworkInterface to) {
  const auto it = links_.find(pair_of(from.node, to.node));
  const LinkOptions& link = it == links_.end() ? link_ : it->second;
  Duration total = link.latency;
  if (const auto more = delays_.find({from.node, to.node}); more != delays_.end()) total += more->second;
  if (link.jitter.count() > 0) total += Duration(random_.below(static_cast<std::uint64_t>(link.jitter.count()) + 1));
  if (link.slow_per_mille > 0 && random_.chance(link.slow_per_mille, 1000)) {
    total += Duration(random_.below(static_cast<std::uint64_t>(link.slow.count()) + 1));
  }
  return total;
}

Duration Links::wire_time(NetworkInterface interface, std::uint64_t bytes) const {
  const auto it = nics_.find(interface.node);
  const std::uint64_t speed = it == nics_.end() ? nic_.bytes_per_second : it->second.bytes_per_second;
  return Duration(static_cast<std::int64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(speed)));
}

void Links::travel(NetworkInterface from, NetworkInterface to, MonoTime departs, EventQueue::Action arrive) {
  auto event = [this, from, to, action = std::move(arrive)]() mutable {
    if (blocked(from, to)) {
      held_.push_back({from, to, std::move(action)});
    } else {
      action();
    }
  };
  events_.at(departs + delay(from, to), std::move(event));
}

void Links::partition(std::uint32_t a, std::uint32_t b, bool on) {
  partition_one_way(a, b, on);
  partition_one_way(b, a, on);
}

void Links::partition_one_way(std::uint32_t from, std::uint32_t to, bool on) {
  if (on) {
    cut_.emplace(from, to);
    return;
  }
  cut_.erase({from, to});
  release_held();
}

void Links::stall(std::uint32_t path, bool on) {
  if (on) {
    stalled_.insert(path);
    return;
  }
  stalled_.erase(path);
  release_held();
}

void Links::release_held() {
  std::vector<Held> held = std::exchange(held_, {});
  for (Held& item : held) {
    if (blocked(item.from, item.to)) {
      held_.push_back(std::move(item));
    } else {
      travel(item.from, item.to, clock_.now(), std::move(item.arrive));
    }
  }
}

}  // namespace spate::bmi::sim
