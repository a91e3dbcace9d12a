// SPDX-License-Identifier: Apache-2.0
// Coverage: records which kinds of fault have met which types of request.
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
  kDelay,           // some packets between two nodes take long
  kReorder,         // packets between two nodes overtake each other
  kDropConnection,  // all connections between two nodes break
  kPartition,       // no packet passes between two nodes, in one direction or in both
  kStalledPath,     // the first network stands still, the second goes on
  kKilledServer,    // the process ends, but not its machine
  kCrashedServer,   // the machine goes down and may lose unsynced writes
  kKilledClient,
  kCrashedClient,
  kDiskFull,
  kIoError,
  kStuckHolder,  // a client's own writes under a lease do not end
  kFailedSync,   // write-back fails; the next sync of a datafile, and no later one, reports it
};
inline constexpr std::size_t kFaultKinds = 13;
std::string_view name(FaultKind kind);
std::optional<FaultKind> fault_by_name(std::string_view text);
std::optional<wire::Op> op_by_name(std::string_view text);

/// Why such a fault can never meet such a request in the simulation; empty: it can.
std::string_view why_never(FaultKind kind, wire::Op op);

/// A request has met a fault if it was in flight at the server concerned while the fault struck or was in force. For
/// faults of the network and of clients, it must have been in flight between the two nodes concerned.
class Coverage {
 public:
  using Cell = std::pair<FaultKind, wire::Op>;

  void note(FaultKind kind, wire::Op op) { ++counts_[{kind, op}]; }
  void add(const Coverage& other);
  std::uint64_t count(Cell cell) const;
  /// All pairs of a fault and an operation of the protocol that can meet (why_never() is empty).
  static const std::vector<Cell>& cells();
  std::vector<Cell> missing() const;
  /// A table with a row for each request and a column for each fault.
  std::string table() const;

 private:
  std::map<Cell, std::uint64_t> counts_;
};

/// A fault that strikes when the `nth` request (1: the first) of a type begins at a server.
struct Aim {
  FaultKind kind = FaultKind::kDelay;
  wire::Op op = wire::Op::kPing;
  std::uint64_t nth = 1;
};
/// The form FAULT:REQUEST:N, as an option of spate-sim has it.
std::string to_string(const Aim& aim);
std::optional<Aim> parse_aim(std::string_view text);

}  // namespace spate::cluster
