// SPDX-License-Identifier: Apache-2.0
// MetaOptions: configuration of a meta server.
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
  std::uint16_t shard = 0;                  // the upper 16 bits of every handle that this server gives out
  KeyRing server_key;                       // the key in use signs capabilities and tickets
  ClusterMap map;                           // from spate.toml
  std::string config_text;                  // the text of spate.toml, for servers that are to be added
  std::uint64_t strip_bytes = 1ULL << 20U;  // default for files whose directory has no hint
  std::uint32_t strip_count = 0;            // targets of such a file; 0 = all
  std::uint32_t replicas = 1;               // copies of such a file's data, 1..kMaxReplicas
  std::uint32_t min_copies = 1;             // of them, as many must serve for a change to be answered, 1..kMaxReplicas
  /// The longest time for which a crash of the machine may lose an acknowledged change; 0: a change is durable before
  /// it is acknowledged.
  Duration sync = std::chrono::milliseconds(100);
  Duration session_lease = std::chrono::seconds(30);
  /// Open and expired sessions together. When there are more, the sessions that expired first are dropped.
  std::size_t max_sessions = std::size_t{1} << 20U;
  /// The validity of a capability; clients renew it before it expires. >= session_lease.
  Duration capability_life = std::chrono::hours(1);
  /// How long the removal of a file's datafiles waits for other files, so that all of them share one sync and one
  /// request to each server. 0: no wait.
  Duration gather_removals = Duration(0);
  /// After the start, new files and clients wait until all io servers have said which numbers they know, but no longer
  /// than this. 0: they do not wait.
  Duration used_numbers_patience = std::chrono::seconds(1);
  bool make_store = true;            // make a new name space in an empty store; otherwise an empty store is refused
  std::uint16_t answer_slots = 256;  // requests that one client may have under way, 1..0xFFFE
  std::uint8_t name_hash_bits = 63;  // of a new store; less than 63 only in tests (NameHash)
};

}  // namespace spate::meta
