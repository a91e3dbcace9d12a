// SPDX-License-Identifier: Apache-2.0
// What an io server is told at its start.
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
  KeyRing server_key;  // what capabilities and tickets are signed with
  /// Differs after each start of the machine (a hash of /proc/sys/kernel/random/boot_id), so that what only a crash of
  /// the machine can lose is known to be in doubt. 0: the machine is taken never to crash.
  std::uint64_t boot = 0;

  /// A store that is made knows no fences: clients are let in once register_at() has learned them. Else at once.
  bool learn_fences = false;

  /// Size of all buffers for bulk data, bytes; at least 17 MiB (a smaller value is raised).
  std::uint64_t buffer_bytes = 256ULL << 20U;
  /// Bulk messages of one stream under way at once, 1..64.
  std::size_t in_flight = 4;
  /// A bulk transfer whose client moves nothing for one to two times this is ended.
  Duration stall_timeout = std::chrono::seconds(30);
  flow::SchedulerOptions scheduler;
  flow::PolicyOptions policy;
  /// Memory of a PCI device for the p2p path; null: there is none, because
  std::shared_ptr<flow::PeerMemory> peer_memory = {};
  std::string no_peer_memory = "flow.p2p_memory names none";

  /// What clients of this machine may do to datafiles by themselves, under leases.
  BypassPolicy bypass = BypassPolicy::kOff;
  /// The user that this server runs as: only he may write by himself.
  std::uint32_t own_uid = 0;
  /// A holder at work that does not end so long after a recall is fenced.
  Duration recall_deadline = std::chrono::seconds(5);
  /// A datafile that several clients write is not lent for writing for so long after a recall. Guess.
  Duration contended_for = std::chrono::seconds(2);
  std::size_t max_leases = 16384;

  /// No capability or ticket that expires later than this from now is accepted, and fences are forgotten after it: so a
  /// fence outlives everything that it forbids.
  Duration longest_capability = std::chrono::hours(24 * 30);
  Duration purge_interval = std::chrono::seconds(60);

  // Bounds of the tables; beyond them the least recently used entry that is not in use goes.
  std::size_t max_capabilities = 65536;
  std::size_t max_clients = 65536;
  std::size_t max_datafiles = 16384;   // known (about 200 bytes each)
  std::size_t max_descriptors = 1024;  // of these, kept open for sending
};

/// One storage device of this server. `storage` outlives the service.
struct IoTarget {
  TargetId id;
  job::StorageContext& storage;
  /// Equal for targets on the same device (of this host: no device of another host has the same), so that df counts its
  /// space once.
  std::uint64_t device = 0;
};

/// A read whose streams together are at most this long may be answered in the reply, bytes: a ReadRequest's
/// inline_limit above it is refused.
constexpr std::uint32_t kMaxInlineBytes = 256 * 1024;

}  // namespace spate::io
