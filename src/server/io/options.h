// SPDX-License-Identifier: Apache-2.0
// IoOptions: configuration of an io server.
#pragma once

#include <memory>
#include <string>

#include "base/checksum.h"
#include "base/clock.h"
#include "flow/peer_memory.h"
#include "flow/policy.h"
#include "flow/scheduler.h"
#include "job/storage.h"
#include "model/ids.h"

namespace spate::io {

enum class BypassPolicy : std::uint8_t { kOff, kRead, kWrite };

struct IoOptions {
  FsId fs;
  ServerId server;
  KeyRing server_key;  // signs capabilities and tickets
  /// Identifies the machine's boot (a hash of /proc/sys/kernel/random/boot_id). The server uses it to recognize state
  /// that a crash of the machine may have lost. 0: assume that the machine never crashes.
  std::uint64_t boot = 0;

  /// True: a newly made store does not know the fences yet, so the server admits clients only when register_at() has
  /// learned them.
  bool learn_fences = false;

  /// Whether this server's targets can be members of groups. False: the server asks the meta server for no groups.
  bool groups = true;
  /// Bytes that this server copies a second to members of its groups that return; 0: no limit.
  std::uint64_t rebuild_rate = 0;
  /// How long a member of a group that this server leads may stay away until another server takes its place; 0: for
  /// ever.
  Duration rebuild_after{0};

  /// Size of all buffers for bulk data, bytes; at least 17 MiB (a smaller value is raised).
  std::uint64_t buffer_bytes = 256ULL << 20U;
  /// Bulk messages of one stream in flight at once, 1..64.
  std::size_t in_flight = 4;
  /// A bulk transfer ends if its client moves nothing for one to two times this long.
  Duration stall_timeout = std::chrono::seconds(30);
  flow::SchedulerOptions scheduler;
  flow::PolicyOptions policy;
  /// Memory of a PCI device for the p2p path. Null: there is none, for this reason:
  std::shared_ptr<flow::PeerMemory> peer_memory = {};
  std::string no_peer_memory = "flow.p2p_memory is not set";

  /// The rights that clients of this machine may get to datafiles, under leases.
  BypassPolicy bypass = BypassPolicy::kOff;
  /// The user that this server runs as: only that user may write datafiles directly.
  std::uint32_t own_uid = 0;
  /// A lease holder that is still at work this long after a recall is fenced.
  Duration recall_deadline = std::chrono::seconds(5);
  /// If several clients write a datafile, no lease for writing it is granted for this long after a recall. Guess.
  Duration contended_for = std::chrono::seconds(2);
  std::size_t max_leases = 16384;

  /// Capabilities and tickets that expire later than this from now are refused, and fences are dropped after this time.
  /// So a fence lives longer than everything that it forbids.
  Duration longest_capability = std::chrono::hours(24 * 30);
  Duration purge_interval = std::chrono::seconds(60);

  // Limits of the tables. Beyond them, the least recently used entry that is not in use is dropped.
  std::size_t max_capabilities = 65536;
  std::size_t max_clients = 65536;
  std::size_t max_datafiles = 16384;   // known (about 200 bytes each)
  std::size_t max_descriptors = 1024;  // of these, kept open for sending
};

/// One storage device of this server. `storage` outlives the service.
struct IoTarget {
  TargetId id;
  job::StorageContext& storage;
  /// Identifies the device, so that df counts it once if several targets share it. Devices of different hosts must have
  /// different numbers.
  std::uint64_t device = 0;
};

/// The data of a read may go into the reply only if all its streams together have at most this many bytes. A
/// ReadRequest with a larger inline_limit is refused.
constexpr std::uint32_t kMaxInlineBytes = 256 * 1024;

}  // namespace spate::io
