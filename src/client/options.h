// SPDX-License-Identifier: Apache-2.0
// The settings of a client; assembly/client_process.cc makes them from spate.toml.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/checksum.h"
#include "base/clock.h"
#include "model/attributes.h"
#include "model/cluster_map.h"
#include "rpc/identity.h"
#include "rpc/wait_watch.h"

namespace spate::client {

class Copies;
class GatherMemory;
class HandoverState;
class LeasedFiles;
class QueueMemory;

/// For which operations on datafiles of its own machine a client asks for leases, to move the data itself.
enum class BypassMode : std::uint8_t { kOff = 0, kRead = 1, kWrite = 2 };
/// Whether a read of a file sets the file's atime.
enum class Atime : std::uint8_t {
  kRelative,  // when atime is not later than mtime or ctime, or a day old
  kNever,
  kAlways,
};

/// Whether listings of directories ask for leases on the entries.
enum class Listings : std::uint8_t {
  kNames,   // never
  kAuto,    // while the entries that they bring are used
  kObjects  // always
};

/// When a lease seems worth its requests. The values are guesses.
struct BypassOptions {
  /// An open file asks for a lease once it has moved so many bytes, or has made so many transfers.
  std::uint64_t after_bytes = 64 * 1024;
  std::uint64_t after_transfers = 4;
  Duration ask_again_after = std::chrono::seconds(3);  // pause after a refusal
};

/// A value.
struct Options {
  ClusterMap map;
  std::optional<ClientKey> client_key;
  std::function<Result<ClientKey>()> newer_client_key = nullptr;   // rpc::Identity::newer_key
  std::function<Result<ClientKey>(ServerId)> fresh_key = nullptr;  // rpc::Identity::fresh_key
  /// Set for fsck and for tests of servers: the client may then send requests that only servers may send.
  std::optional<Key> server_key;
  rpc::HandshakePolicy handshake;
  Credential credential;
  std::string description = "client";  // for `spate status` and the servers' logs

  /// Time for one operation, resends included. After that it fails with kTimeout or kUnreachable.
  Duration deadline = std::chrono::seconds(30);
  /// An attempt that takes longer ends, and is repeated over a new connection.
  Duration attempt_timeout = std::chrono::seconds(10);
  /// Largest message of bulk data, bytes; 4 KiB..8 MiB.
  std::uint32_t unit_bytes = 1U << 20U;
  /// Reads of at most this many bytes per server come in the reply. Guess, until bench/ says otherwise.
  std::uint32_t inline_read_bytes = 64U * 1024;
  /// Writes of at most this many bytes per server go in the request. Must be below the network's max_unexpected.
  std::uint32_t inline_write_bytes = 64U * 1024;
  /// Works only with servers that are reached by shm:// and that allow it.
  BypassMode bypass = BypassMode::kOff;
  BypassOptions bypass_when;
  /// Opens the descriptors of leases. Null: as descriptors of the kernel. Not owned; outlives the client.
  LeasedFiles* leased_files = nullptr;
  /// Bytes. A larger read or write is divided into several, one after the other.
  std::uint64_t max_transfer_bytes = 256ULL << 20U;
  /// A longer list of pieces is divided, too, because a request must fit into the network's max_unexpected.
  std::size_t max_list_pieces = 8192;
  Atime atime = Atime::kRelative;
  /// The state that outlives the process. Null: no state does. Not owned; outlives the client.
  HandoverState* handover = nullptr;
  /// Whether attributes and names are kept under leases. Only for a process whose executor is driven all the time,
  /// because other clients wait for its answer to a recall.
  bool keep_attributes = false;
  std::size_t most_kept = 50000;  // objects and names together
  Listings listings = Listings::kAuto;
  /// Is told to drop copies of attributes and names that leases cover (client/attributes/copies.h). Null: nobody keeps
  /// copies. Not owned; outlives the client.
  Copies* copies = nullptr;
  /// Room for gathered writes (client/file/file_gather.h). Null: none are gathered. Not owned; outlives the client.
  GatherMemory* gather = nullptr;
  /// Room for changes that are answered before they are sent (client/queued_changes.h). Null: none are. Not owned;
  /// outlives the client.
  QueueMemory* queue = nullptr;
  /// Called on the executor's thread for each server that keeps calls waiting (rpc/wait_watch.h). May be empty.
  std::function<void(const rpc::ServerWait&)> on_wait;
};

}  // namespace spate::client
