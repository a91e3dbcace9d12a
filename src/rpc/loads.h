// SPDX-License-Identifier: Apache-2.0
// Loads: counts what each client asks of a server, for `spate top`, in bounded memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "base/clock.h"
#include "rpc/call.h"

namespace spate::rpc {

/// The kind that a request is counted as. None: it keeps a session alive, waits for an event, or looks at the server
/// itself, and is no load.
std::optional<wire::LoadKind> load_kind(wire::Op op);

/// One per server. It keeps counts for the busiest clients of about the last minute. When a client comes for which
/// there is no room, it takes the place of the one that has asked least, and begins with that one's weight: a client
/// that asks for more than 1/most of all is never missing. Source: SPACESAVING, sec. 3, with weights that fall by half
/// every kHalfLife. One executor.
class Loads {
 public:
  static constexpr std::size_t kMost = 128;
  static constexpr Duration kHalfLife = std::chrono::seconds(10);

  /// `begun`: the moment that the times of the reply count from.
  explicit Loads(MonoTime begun, std::size_t most = kMost) : begun_(begun), halved_(begun), most_(most) {}

  struct Served {
    wire::LoadKind kind = wire::LoadKind::kLook;
    bool failed = false;
    Duration time{};          // from arrival to answer
    std::uint64_t bytes = 0;  // of file data
  };
  /// An authenticated peer's request was answered. Constant time, but for a client that is new (O(most)).
  void note(const Peer& peer, const Served& served, MonoTime now);
  wire::ListLoadsReply list(MonoTime now) const;

 private:
  using Counts = std::array<wire::LoadCounts, wire::kLoadKinds>;
  struct Entry {
    wire::ClientLoad about;  // without its kinds
    Counts counts{};
    double weight = 0;
  };
  Entry& entry_of(const Peer& peer, MonoTime now);
  void halve(MonoTime now);

  const MonoTime begun_;
  MonoTime halved_;
  const std::size_t most_;
  std::unordered_map<std::uint64_t, Entry> entries_;  // by client; 0: the servers
  Counts others_{};
  std::uint64_t dropped_ = 0;
};

}  // namespace spate::rpc
