// SPDX-License-Identifier: Apache-2.0
// What a meta server is told at its start.
#pragma once

#include <string>

#include "base/checksum.h"
#include "base/clock.h"
#include "model/capability.h"
#include "model/cluster_map.h"
#include "model/ids.h"

namespace spate::meta {

struct MetaOptions {
  FsId fs;
  ServerId server;
  std::uint16_t shard = 0;                  // of every handle that this server gives out
  KeyRing server_key;                       // capabilities and tickets are signed by the one in use
  ClusterMap map;                           // of spate.toml
  std::string config_text;                  // spate.toml itself, for servers that are to be added
  std::uint64_t strip_bytes = 1ULL << 20U;  // of files whose directory says nothing else
  std::uint32_t strip_count = 0;            // targets of such a file; 0 = all
  /// How long an acknowledged change may be lost by a crash of the machine; 0: it is durable before it is acknowledged.
  Duration sync = std::chrono::milliseconds(100);
  Duration session_lease = std::chrono::seconds(30);
  /// Open and expired ones together; the longest expired are forgotten before there are so many.
  std::size_t max_sessions = std::size_t{1} << 20U;
  /// How long a capability is good for; clients renew it before. >= session_lease.
  Duration capability_life = std::chrono::hours(1);
  /// How long a removed file waits for others before its datafiles are removed, all of them with one sync and one
  /// request to each server. 0: not at all.
  Duration gather_removals = Duration(0);
  bool make_store = true;            // an empty store becomes a new name space; else it is refused
  std::uint16_t answer_slots = 256;  // requests that one client may have under way, 1..0xFFFE
  std::uint8_t name_hash_bits = 63;  // of a new store; fewer only in tests (NameHash)
};

}  // namespace spate::meta
