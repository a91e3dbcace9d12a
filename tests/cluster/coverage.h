// SPDX-License-Identifier: Apache-2.0
// Coverage: which kinds of fault have met which types of request.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/op.h"

namespace spate::cluster {

enum class FaultKind : std::uint8_t {
  kDelay,           // packets between two nodes take long, now and then
  kReorder,         // packets between two nodes overtake each other
  kDropConnection,  // all connections between two nodes break
  kPartition,       // nothing passes between two nodes, or only in one direction
  kStalledPath,     // the first network stands still, the second goes on
  kKilledServer,    // the process ends, its machine goes on
  kCrashedServer,   // the machine goes down, and with it what was not synced
  kKilledClient,
  kCrashedClient,
  kDiskFull,
  kIoError,
  kStuckHolder,  // what a client writes by itself, under a lease, does not end
  kFailedSync,   // write-back meets errors, which the next sync of a datafile hears of and no other
};
inline constexpr std::size_t kFaultKinds = 13;
std::string_view name(FaultKind kind);
std::optional<FaultKind> fault_by_name(std::string_view text);
std::optional<wire::Op> op_by_name(std::string_view text);

/// Why such a fault can never meet such a request in the simulation; empty when it can.
std::string_view why_never(FaultKind kind, wire::Op op);

/// A request counts for a fault when it was under way at the server concerned (between the two nodes concerned, for
/// faults of the network and of clients) while the fault struck or was in force.
class Coverage {
 public:
  using Cell = std::pair<FaultKind, wire::Op>;

  void note(FaultKind kind, wire::Op op) { ++counts_[{kind, op}]; }
  void add(const Coverage& other);
  std::uint64_t count(Cell cell) const;
  /// All for which why_never() has nothing to say, of all operations of the protocol.
  static const std::vector<Cell>& cells();
  std::vector<Cell> missing() const;
  /// A table: faults down, requests across.
  std::string table() const;

 private:
  std::map<Cell, std::uint64_t> counts_;
};

/// A fault that strikes at once when the `nth` request (1: the first) of a type begins at a server.
struct Aim {
  FaultKind kind = FaultKind::kDelay;
  wire::Op op = wire::Op::kPing;
  std::uint64_t nth = 1;
};
/// FAULT:REQUEST:N, as spate-sim takes it.
std::string to_string(const Aim& aim);
std::optional<Aim> parse_aim(std::string_view text);

}  // namespace spate::cluster
