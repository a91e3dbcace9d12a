// SPDX-License-Identifier: Apache-2.0
#include "rpc/loads.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "base/printable.h"

namespace spate::rpc {
namespace {

/// A request costs about as much as moving so many bytes.
constexpr double kBytesOfARequest = 64.0 * 1024;

std::vector<wire::LoadCounts> told(std::span<const wire::LoadCounts> counts) { return {counts.begin(), counts.end()}; }

/// The client wrote it: it may hold anything, and is cut at the end of a character.
std::string cut_description(const std::string& description) {
  std::string kept = printable(std::string_view(description).substr(0, wire::kMaxLoadDescription));
  if (kept.size() <= wire::kMaxLoadDescription) return kept;
  std::size_t end = wire::kMaxLoadDescription;
  while (end > 0 && (static_cast<unsigned char>(kept[end]) & 0xC0U) == 0x80U) --end;
  kept.resize(end);
  return kept;
}

}  // namespace

std::optional<wire::LoadKind> load_kind(wire::Op op) {
  using wire::Op;
  switch (op) {
    case Op::kHello:
    case Op::kAuthenticate:
    case Op::kPing:
    case Op::kStats:
    case Op::kKeepAlive:
    case Op::kListLoads:
    case Op::kLockEvents:
    case Op::kGroupMessage: return std::nullopt;
    case Op::kRead: return wire::LoadKind::kRead;
    case Op::kWrite: return wire::LoadKind::kWrite;
    case Op::kSetattr:
    case Op::kCreate:
    case Op::kMkdir:
    case Op::kSymlink:
    case Op::kLink:
    case Op::kUnlink:
    case Op::kRmdir:
    case Op::kRename:
    case Op::kTruncate:
    case Op::kSetxattr:
    case Op::kRemovexattr:
    case Op::kChangeBatch:
    case Op::kMetaRepair:
    case Op::kPunch:
    case Op::kDatafileTruncate:
    case Op::kDatafileRemove:
    case Op::kDatafileCopy:
    case Op::kDatafileAllocate: return wire::LoadKind::kChange;
    default: return wire::LoadKind::kLook;
  }
}

void Loads::note(const Peer& peer, const Served& served, MonoTime now) {
  halve(now);
  Entry& entry = entry_of(peer, now);
  wire::LoadCounts& counts = entry.counts.at(static_cast<std::size_t>(served.kind));
  ++counts.requests;
  if (served.failed) ++counts.failed;
  counts.time_ns += static_cast<std::uint64_t>(std::max(served.time, Duration(0)).count());
  counts.bytes += served.bytes;
  entry.weight += 1 + static_cast<double>(served.bytes) / kBytesOfARequest;
}

Loads::Entry& Loads::entry_of(const Peer& peer, MonoTime now) {
  const std::uint64_t key = peer.kind == wire::PeerKind::kServer ? 0 : peer.client.value;
  const auto found = entries_.find(key);
  if (found != entries_.end()) return found->second;
  double weight = 0;
  if (entries_.size() >= most_) {
    const auto least = std::min_element(entries_.begin(), entries_.end(),
                                        [](const auto& a, const auto& b) { return a.second.weight < b.second.weight; });
    weight = least->second.weight;
    for (std::size_t i = 0; i < others_.size(); ++i) {
      const wire::LoadCounts& gone = least->second.counts.at(i);
      wire::LoadCounts& sum = others_.at(i);
      sum.requests += gone.requests;
      sum.failed += gone.failed;
      sum.time_ns += gone.time_ns;
      sum.bytes += gone.bytes;
    }
    entries_.erase(least);
    ++dropped_;
  }
  Entry& entry = entries_[key];
  entry.weight = weight;
  entry.about.kind = peer.kind;
  entry.about.client = ClientId(key);
  entry.about.uid = peer.credential.uid;
  entry.about.description = key == 0 ? "servers" : cut_description(peer.description);
  entry.about.since_ns = static_cast<std::uint64_t>((now - begun_).count());
  return entry;
}

void Loads::halve(MonoTime now) {
  const auto times = (now - halved_) / kHalfLife;
  if (times < 1) return;
  halved_ = halved_ + kHalfLife * times;
  const double part = std::exp2(-static_cast<double>(std::min<std::int64_t>(times, 1000)));
  for (auto& [client, entry] : entries_) entry.weight *= part;
}

wire::ListLoadsReply Loads::list(MonoTime now) const {
  wire::ListLoadsReply reply;
  reply.now_ns = static_cast<std::uint64_t>((now - begun_).count());
  reply.clients.reserve(entries_.size());
  for (const auto& [client, entry] : entries_) {
    reply.clients.push_back(entry.about);
    reply.clients.back().kinds = told(entry.counts);
  }
  reply.others = told(others_);
  reply.clients_dropped = dropped_;
  return reply;
}

}  // namespace spate::rpc
