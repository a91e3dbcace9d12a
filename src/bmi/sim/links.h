// SPDX-License-Identifier: Apache-2.0
// Links: the connections between the nodes of a simulated network, with their delays and speeds, and cuts that a test
// orders.
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

/// The properties of the way between two nodes, in both directions.
struct LinkOptions {
  Duration latency = std::chrono::microseconds(20);
  /// A random delay in [0, jitter] that is added to each packet, so that streams overtake each other.
  Duration jitter{0};
  /// How many of 1000 packets get a further delay of up to `slow`.
  std::uint32_t slow_per_mille = 0;
  Duration slow = std::chrono::milliseconds(20);
};

/// The interface of a node. Each direction has a queue for each message class, so control messages never wait behind
/// bulk data.
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

  /// Replaces the options of FabricOptions for this pair of nodes.
  void set_link(std::uint32_t a, std::uint32_t b, const LinkOptions& options) { links_[pair_of(a, b)] = options; }
  void set_nic(std::uint32_t node, const NicOptions& options) { nics_[node] = options; }
  /// Holds back all packets between the two nodes. Existing connections survive; new ones time out.
  void partition(std::uint32_t a, std::uint32_t b, bool on);
  void partition_one_way(std::uint32_t from, std::uint32_t to, bool on);
  /// Delays all packets that depart from now on by `more` than the link does, in this direction.
  void delay_one_way(std::uint32_t from, std::uint32_t to, Duration more) { delays_[{from, to}] = more; }
  /// As partition(), for one path of all nodes.
  void stall(std::uint32_t path, bool on);

  /// Runs `arrive` when a packet that departs at `departs` arrives, which is later if the way is cut in the meantime.
  void travel(NetworkInterface from, NetworkInterface to, MonoTime departs, EventQueue::Action arrive);
  /// How long the interface needs to send or receive this many bytes.
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
  std::map<std::pair<std::uint32_t, std::uint32_t>, Duration> delays_;  // by (from, to)
  std::set<std::pair<std::uint32_t, std::uint32_t>> cut_;               // ordered pairs (from, to)
  std::set<std::uint32_t> stalled_;
  std::vector<Held> held_;
};

}  // namespace spate::bmi::sim
