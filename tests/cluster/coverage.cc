// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/coverage.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace spate::cluster {
namespace {

using wire::Op;

constexpr std::array kOps = {
    Op::kAuthenticate, Op::kKeepAlive,    Op::kEndSession, Op::kLookup,           Op::kGetattr,      Op::kSetattr,
    Op::kCreate,       Op::kMkdir,        Op::kSymlink,    Op::kLink,             Op::kUnlink,       Op::kRmdir,
    Op::kRename,       Op::kReaddir,      Op::kOpen,       Op::kClose,            Op::kTruncate,     Op::kGetxattr,
    Op::kSetxattr,     Op::kListxattr,    Op::kRemovexattr, Op::kMetaStatfs,      Op::kMetaSync,     Op::kRead,
    Op::kWrite,        Op::kDatafileStat, Op::kPunch,      Op::kDatafileSync,     Op::kIoStatfs,     Op::kDatafileTruncate,
    Op::kDatafileRemove, Op::kFence};

bool of_a_server(Op op) { return op == Op::kDatafileTruncate || op == Op::kDatafileRemove || op == Op::kFence; }

bool possible(FaultKind kind, Op op) {
  const bool client_dies = kind == FaultKind::kKilledClient || kind == FaultKind::kCrashedClient;
  return !client_dies || !of_a_server(op);
}

}  // namespace

std::string_view name(FaultKind kind) {
  static constexpr std::array<std::string_view, kFaultKinds> kNames = {
      "delay",          "reorder",       "drop_connection", "partition", "stalled_path", "killed_server",
      "crashed_server", "killed_client", "crashed_client",  "disk_full", "io_error"};
  return kNames.at(static_cast<std::size_t>(kind));
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
        if (possible(static_cast<FaultKind>(kind), op)) list.emplace_back(static_cast<FaultKind>(kind), op);
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
  for (std::size_t kind = 0; kind < kFaultKinds; ++kind) text += fmt::format(" {:>15}", name(static_cast<FaultKind>(kind)));
  text += "\n";
  for (const Op op : kOps) {
    text += fmt::format("{:<18}", op_name(op));
    for (std::size_t kind = 0; kind < kFaultKinds; ++kind) {
      const auto fault = static_cast<FaultKind>(kind);
      text += possible(fault, op) ? fmt::format(" {:>15}", count({fault, op})) : fmt::format(" {:>15}", "-");
    }
    text += "\n";
  }
  return text;
}

}  // namespace spate::cluster
