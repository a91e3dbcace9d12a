// SPDX-License-Identifier: Apache-2.0
// ClusterMap: lists the servers, their URLs and their targets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/codec.h"
#include "base/result.h"
#include "model/ids.h"

namespace spate {

/// The roles of a server process; at least one is set.
struct Roles {
  bool meta = false;  // the name space
  bool io = false;    // file data
  friend bool operator==(const Roles&, const Roles&) = default;
};

constexpr std::size_t kMaxServers = 4096;
constexpr std::size_t kMaxUrlsPerServer = 8;
constexpr std::size_t kMaxUrlBytes = 255;
constexpr std::size_t kMaxTargetsPerServer = 256;
constexpr std::uint32_t kMaxServerId = 65535;
constexpr std::size_t kMaxRackBytes = 63;

/// Whether a rack may have this name: 1..kMaxRackBytes letters, digits, '.', '_' and '-'.
bool is_rack_name(std::string_view name);

struct ServerEntry {
  ServerId id;                    // 1..kMaxServerId
  std::vector<std::string> urls;  // in order of preference; 1..kMaxUrlsPerServer
  Roles roles;
  std::vector<TargetId> targets;  // io servers: in the order of their storage folders; others: none
  std::string rack = {};          // of its machine, as is_rack_name() demands; empty: none is known
  friend bool operator==(const ServerEntry&, const ServerEntry&) = default;
};

/// The id of a server's index-th storage folder: server * 256 + index. A target is named by its place in spate.toml, so
/// folders are appended to a server's list and never reordered.
constexpr TargetId target_id(ServerId server, std::size_t index) {
  return TargetId(static_cast<std::uint32_t>(server.value * kMaxTargetsPerServer + index));
}

constexpr ServerId server_of(TargetId target) {
  return ServerId(static_cast<std::uint32_t>(target.value / kMaxTargetsPerServer));
}

/// A value. Servers ascend by id. A newer map replaces an older one as a whole.
struct ClusterMap {
  std::uint64_t version = 1;  // >= 1; a request with an older version is refused with kStaleMap
  FsId fs;
  std::vector<ServerEntry> servers;

  /// Null when there is none. O(log servers).
  const ServerEntry* find_server(ServerId id) const;
  /// The server that holds a target; null when there is none. O(log servers).
  const ServerEntry* server_of_target(TargetId target) const;
  /// Where requests to the meta server go. If several meta servers hold the same records, the result has the URLs of
  /// all and no id, because whichever of them leads answers. The map has at least one meta server.
  ServerEntry meta_server() const;
  /// All targets, in a fixed order that takes one target of each server in turn. So consecutive targets are on
  /// different servers.
  std::vector<TargetId> targets_in_turn() const;

  /// Adds the servers and targets of `other` that this map lacks. Nothing is removed, and a server that both name keeps
  /// its URLs, and its rack if it has one. Fails and changes nothing if the maps belong to different file systems or
  /// differ in a server's roles.
  Result<void> grow(const ClusterMap& other);
  /// grow() with one server. The version stays the same.
  Result<void> add(const ServerEntry& server);

  bool has_racks() const;

  friend bool operator==(const ClusterMap&, const ClusterMap&) = default;
};

/// docs/wire.md, "Cluster map". A map without racks has the bytes that earlier versions know.
void encode(Encoder& out, const ClusterMap& map);
/// Fails the decoder on anything out of range or out of order.
ClusterMap decode_cluster_map(Decoder& in);

}  // namespace spate
