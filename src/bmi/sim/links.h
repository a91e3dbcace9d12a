// SPDX-License-Identifier: Apache-2.0
// Links: what connects the nodes of a simulated network: delays, speeds, and cuts on order.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "bmi/sim/events.h"
#include "bmi/sim/network_interface.h"

namespace spate::bmi::sim {

/// The way between two nodes, in both directions.
struct LinkOptions {
  Duration latency = std::chrono::microseconds(20);
  /// Added to each packet, uniform in [0, jitter]: what lets streams overtake each other.
  Duration jitter{0};
  /// How many of 1000 packets are delayed by up to `slow` more.
  std::uint32_t slow_per_mille = 0;
  Duration slow = std::chrono::milliseconds(20);
};

/// A node's interface; each direction and each message class queues by itself (control is never behind bulk).
struct NicOptions {
  std::uint64_t bytes_per_second = 12'500'000'000;  // 100 Gb/s; >= 1
};

/// A pair of nodes, in either order.
inline std::pair<std::uint32_t, std::uint32_t> pair_of(std::uint32_t a, std::uint32_t b) {
  return a < b ? std::pair{a, b} : std::pair{b, a};
}

/// One thread. `clock`, `random` and `events` outlive it. Faults take effect at once.
class Links {
 public:
  Links(const Clock& clock, Random& random, EventQueue& events, LinkOptions link, NicOptions nic)
      : clock_(clock), random_(random), events_(events), link_(link), nic_(nic) {}
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  /// In place of FabricOptions's.
  void set_link(std::uint32_t a, std::uint32_t b, const LinkOptions& options) { links_[pair_of(a, b)] = options; }
  void set_nic(std::uint32_t node, const NicOptions& options) { nics_[node] = options; }
  /// Nothing passes from one node to another; sent packets wait. Existing connections survive, new ones time out.
  void partition(std::uint32_t a, std::uint32_t b, bool on);
  void partition_one_way(std::uint32_t from, std::uint32_t to, bool on);
  /// As partition(), for a whole network.
  void stall(std::uint32_t path, bool on);

  /// Runs `arrive` when something that departs then has travelled, later if the way is cut meanwhile.
  void travel(NetworkInterface from, NetworkInterface to, MonoTime departs, EventQueue::Action arrive);
  /// How long the interface takes to send or receive so much.
  Duration wire_time(NetworkInterface interface, std::uint64_t bytes) const;

 private:
  struct Held {
    NetworkInterface from;
    NetworkInterface to;
    EventQueue::Action arrive;
  };
  bool blocked(NetworkInterface from, NetworkInterface to) const;
  Duration delay(NetworkInterface from, NetworkInterface to);
  void release_held();

  const Clock& clock_;
  Random& random_;
  EventQueue& events_;
  const LinkOptions link_;
  const NicOptions nic_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, LinkOptions> links_;
  std::map<std::uint32_t, NicOptions> nics_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> cut_;  // ordered pairs (from, to)
  std::set<std::uint32_t> stalled_;
  std::vector<Held> held_;
};

}  // namespace spate::bmi::sim
