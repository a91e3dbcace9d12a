// SPDX-License-Identifier: Apache-2.0
// Loads: counts the requests of each client, and the reads and writes of each file, for `spate top`. Bounded memory.
#pragma once

#include <cstdint>
#include <optional>

#include "rpc/call.h"
#include "rpc/heavy_hitters.h"

namespace spate::rpc {

/// The kind that a request counts as. None: the request is no load, since it keeps a session alive, waits for an event,
/// or asks about the server itself.
std::optional<wire::LoadKind> load_kind(wire::Op op);

/// One per server: the busiest clients, and the files with most reads and writes. One executor.
class Loads {
 public:
  static constexpr std::size_t kMost = 128;
  static constexpr Duration kHalfLife = HeavyHitters<std::uint64_t, wire::ClientLoad>::kHalfLife;
  using Served = rpc::Served;

  /// `begun`: the moment from which the times in the replies count.
  explicit Loads(MonoTime begun, std::size_t most = kMost) : clients_(begun, most), files_(begun, most) {}

  /// An authenticated peer's request was answered.
  void note(const Peer& peer, const Served& served, MonoTime now);
  /// The request has read or written this file.
  void note_file(Handle file, const Served& served, MonoTime now);
  wire::ListLoadsReply list(MonoTime now) const;
  wire::ListFileLoadsReply list_files(MonoTime now) const;

 private:
  HeavyHitters<std::uint64_t, wire::ClientLoad> clients_;  // by client; 0: the servers
  HeavyHitters<std::uint64_t, wire::FileLoad> files_;      // by handle
};

}  // namespace spate::rpc
