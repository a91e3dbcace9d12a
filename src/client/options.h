// SPDX-License-Identifier: Apache-2.0
// What a client needs to know to use a file system; made from spate.toml by client/connect.h or by hand in tests.
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
class HandoverState;
class LentFiles;

/// What of datafiles on this machine a client asks to read and write by itself.
enum class BypassMode : std::uint8_t { kOff = 0, kRead = 1, kWrite = 2 };
/// When reading a file moves its atime.
enum class Atime : std::uint8_t {
  kRelative,  // when it is not later than mtime or ctime, or a day old
  kNever,
  kAlways,
};

/// Whether listings of directories are asked for with all that may be kept of the entries, under leases.
enum class Listings : std::uint8_t {
  kNames,   // never
  kAuto,    // while what they bring is used
  kObjects  // always
};

/// When leases seem worth their requests. Guesses.
struct BypassOptions {
  std::uint64_t after_bytes = 64 * 1024;  // moved by an open file, either of the two
  std::uint64_t after_transfers = 4;
  Duration ask_again_after = std::chrono::seconds(3);  // a refusal
};

/// A value.
struct Options {
  ClusterMap map;
  std::optional<Key> client_key;
  std::function<Result<Key>()> newer_client_key = nullptr;  // rpc::Identity::newer_key
  /// Set for fsck and for tests of servers: the client may then ask what only servers may (admin_call).
  std::optional<Key> server_key;
  rpc::HandshakePolicy handshake;
  Credential credential;
  std::string description = "client";  // for `spate status` and the servers' logs

  /// Time for one operation, resends included. kTimeout or kUnreachable after it.
  Duration deadline = std::chrono::seconds(30);
  /// One attempt is given up after this and made again over a new connection.
  Duration attempt_timeout = std::chrono::seconds(10);
  /// Largest message of bulk data, bytes; 4 KiB..8 MiB.
  std::uint32_t unit_bytes = 1U << 20U;
  /// Reads of at most this much per server come in the reply, bytes. Guess, until bench/ says otherwise.
  std::uint32_t inline_read_bytes = 64U * 1024;
  /// Writes of at most this much per server go in the request, bytes; below the network's max_unexpected.
  std::uint32_t inline_write_bytes = 64U * 1024;
  /// Where a server is reached by shm:// and allows it.
  BypassMode bypass = BypassMode::kOff;
  BypassOptions bypass_when;
  /// What descriptors of leases are; null: the kernel's. Not owned, outlives the client.
  LentFiles* lent_files = nullptr;
  /// A larger read or write is cut into several, one after the other, bytes.
  std::uint64_t max_transfer_bytes = 256ULL << 20U;
  /// A longer list of pieces is cut, too: a request must not be larger than the network's max_unexpected.
  std::size_t max_list_pieces = 8192;
  Atime atime = Atime::kRelative;
  /// What outlives the process; null: nothing does. Not owned, outlives the client.
  HandoverState* handover = nullptr;
  /// Attributes and names are kept under leases. Only for a process whose executor is driven all the time: others wait
  /// for its answer to a recall.
  bool keep_attributes = false;
  std::size_t most_kept = 50000;  // objects and names together
  Listings listings = Listings::kAuto;
  /// Is told to drop copies of attributes and names that leases cover (client/attributes/copies.h). Null: nobody keeps
  /// copies. Not owned; outlives the client.
  Copies* copies = nullptr;
  /// Told on the executor's thread of each server that keeps calls waiting (rpc/wait_watch.h). May be empty.
  std::function<void(const rpc::ServerWait&)> on_wait;
};

}  // namespace spate::client
