// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace spate::cluster {
namespace {

using wire::Op;

constexpr std::array kOps = {
#define SPATE_OP_OF(id, ...) Op::k##id,
    SPATE_OPERATIONS(SPATE_OP_OF)
#undef SPATE_OP_OF
};

constexpr std::array<std::string_view, kFaultKinds> kFaultNames = {
    "delay",         "reorder",        "drop_connection", "partition",      "stalled_path",
    "killed_server", "crashed_server", "killed_client",   "crashed_client", "disk_full",
    "io_error",      "stuck_holder",   "failed_sync"};

/// Why the workload never causes such requests. Empty: it sends them, or makes a server send them.
std::string_view why_unused(Op op) {
  switch (op) {
    case Op::kHello: return "part of making a connection, below the services: what meets authenticate has met it";
    case Op::kPing:
    case Op::kExplainPath:
    case Op::kReserveServer:
    case Op::kListLoads:
    case Op::kListFileLoads:
    case Op::kRevokeKeys:
    case Op::kStats: return "asked by tools only; changes and keeps nothing";
    case Op::kMetaScan:
    case Op::kMetaRepair:
    case Op::kMetaJudge:
    case Op::kDatafileList:
    case Op::kDatafileProbe:
    case Op::kDatafileDigest:
    case Op::kCopyRenew:
      return "asked by spate fsck only, which the workload does not run (src/fsck has its own tests)";
    case Op::kClusterMap:
    case Op::kJoinServer:
    case Op::kListFences:
      return "goes with a server that is added: once in a run, in a crash as a rule (disturb_newcomer, AddedServer)";
    case Op::kUsedNumbers: return "asked once when the meta server starts, before it has clients (RestoredStoreTest)";
    case Op::kGroupMessage: return "goes between meta servers of a group (tests/group)";
    case Op::kDataGroups:
    case Op::kChangeGroup:
    case Op::kMirrorForward:
    case Op::kMirrorBeacon:
    case Op::kMirrorObey:
    case Op::kMirrorRecords:
    case Op::kMirrorWindow:
    case Op::kMirrorFences: return "about mirrored files, which the workload does not have (tests/mirror)";
    case Op::kReserveHandles:
    case Op::kQueuedChanges: return "the workload has no client with delegated directories (QueuedPrograms)";
    case Op::kDatafileAllocate: return "the workload reserves no space (tests/io and tests/frontends do)";
    case Op::kDatafileSync: return "asked by clients of earlier versions only: datafile_flush has taken its place";
    default: return {};
  }
}

/// Requests to io servers that may have to wait for a lease holder: about a datafile that may be lent, or about leases.
bool waits_for_holders(Op op) {
  switch (op) {
    case Op::kRead:
    case Op::kWrite:
    case Op::kPunch:
    case Op::kDatafileStat:
    case Op::kDatafileFlush:
    case Op::kDatafileTruncate:
    case Op::kDatafileRemove:
    case Op::kFence:
    case Op::kBypassLease: return true;
    default:
      return false;  // a return of a lease does not either: its sender has no write in flight, and waits for no holder
  }
}

bool of_a_server(Op op) { return op == Op::kDatafileTruncate || op == Op::kDatafileRemove || op == Op::kFence; }

}  // namespace

std::string_view name(FaultKind kind) { return kFaultNames.at(static_cast<std::size_t>(kind)); }

std::optional<FaultKind> fault_by_name(std::string_view text) {
  const auto found = std::find(kFaultNames.begin(), kFaultNames.end(), text);
  if (found == kFaultNames.end()) return std::nullopt;
  return static_cast<FaultKind>(found - kFaultNames.begin());
}

std::optional<Op> op_by_name(std::string_view text) {
  const auto found = std::find_if(kOps.begin(), kOps.end(), [text](Op op) { return op_name(op) == text; });
  return found == kOps.end() ? std::nullopt : std::optional<Op>(*found);
}

std::string_view why_never(FaultKind kind, Op op) {
  const std::string_view unused = why_unused(op);
  if (!unused.empty()) return unused;
  const bool client_dies = kind == FaultKind::kKilledClient || kind == FaultKind::kCrashedClient;
  if (client_dies && of_a_server(op)) return "asked by the meta server: there is no client that could die";
  if (kind == FaultKind::kFailedSync && op != Op::kDatafileFlush) return "syncs no datafile";
  if (kind == FaultKind::kStuckHolder && !waits_for_holders(op)) return "is in no lease's way, nor in a holder's";
  return {};
}

std::string to_string(const Aim& aim) { return fmt::format("{}:{}:{}", name(aim.kind), op_name(aim.op), aim.nth); }

std::optional<Aim> parse_aim(std::string_view text) {
  const std::size_t first = text.find(':');
  const std::size_t second = text.find(':', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) return std::nullopt;
  const auto kind = fault_by_name(text.substr(0, first));
  const auto op = op_by_name(text.substr(first + 1, second - first - 1));
  std::uint64_t nth = 0;
  const std::string_view number = text.substr(second + 1);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), nth);
  if (!kind || !op || error != std::errc() || end != number.data() + number.size() || nth == 0) return std::nullopt;
  return Aim{*kind, *op, nth};
}

void Coverage::add(const Coverage& other) {
  for (const auto& [cell, count] : other.counts_) counts_[cell] += count;
}

std::uint64_t Coverage::count(Cell cell) const {
  const auto found = counts_.find(cell);
  return found == counts_.end() ? 0 : found->second;
}

const std::vector<Coverage::Cell>& Coverage::cells() {
  static const std::vector<Cell> all = [] {
    std::vector<Cell> list;
    for (std::size_t kind = 0; kind < kFaultKinds; ++kind) {
      for (const Op op : kOps) {
        if (why_never(static_cast<FaultKind>(kind), op).empty()) list.emplace_back(static_cast<FaultKind>(kind), op);
      }
    }
    return list;
  }();
  return all;
}

std::vector<Coverage::Cell> Coverage::missing() const {
  std::vector<Cell> list;
  for (const Cell& cell : cells()) {
    if (count(cell) == 0) list.push_back(cell);
  }
  return list;
}

std::string Coverage::table() const {
  std::string text = fmt::format("{:<18}", "");
  for (std::size_t kind = 0; kind < kFaultKinds; ++kind)
    text += fmt::format(" {:>15}", name(static_cast<FaultKind>(kind)));
  text += "\n";
  for (const Op op : kOps) {
    if (!why_unused(op).empty()) continue;
    text += fmt::format("{:<18}", op_name(op));
    for (std::size_t kind = 0; kind < kFaultKinds; ++kind) {
      const auto fault = static_cast<FaultKind>(kind);
      text += why_never(fault, op).empty() ? fmt::format(" {:>15}", count({fault, op})) : fmt::format(" {:>15}", "-");
    }
    text += "\n";
  }
  return text;
}

}  // namespace spate::cluster
