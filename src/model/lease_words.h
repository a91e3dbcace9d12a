// SPDX-License-Identifier: Apache-2.0
// LeaseWords: shared memory by which an io server and the holder of a bypass lease communicate without messages.
// docs/data-paths.md, "Bypass"; byte by byte in docs/disk-datafiles.md, "Leases".
#pragma once

#include <atomic>
#include <cstdint>

#include "model/ids.h"

namespace spate {

/// The first page of a lease's file, in the byte order of the machine that both run on. A holder that may only read
/// maps it for reading and uses only `state`.
struct LeaseWords {
  static constexpr std::uint64_t kMagic = 0x31657361654c7053ULL;  // "SpLease1"
  enum State : std::uint32_t {
    kGranted = 0,
    kRecalled = 1,  // no operation may begin
    kFenced = 2,    // operations in flight have no effect: the datafile is another file now
  };

  std::uint64_t magic = kMagic;
  std::uint64_t handle = 0;
  std::uint64_t client = 0;
  std::uint32_t slot = 0;
  std::uint32_t epoch = 0;
  std::uint32_t writable = 0;
  std::uint32_t reserved = 0;
  char boot_id[40] = {};  // of the kernel that granted it
  /// The datafile's change counter when the lease was granted. Writes under the lease have a higher one. 0: unknown.
  std::uint64_t counter = 0;

  /// Written by the server. A cache line of its own: the holder reads it before each operation.
  alignas(64) std::atomic<std::uint32_t> state{kGranted};
  /// A holder that may write changes these. `busy`: operations that have read `state`, or are about to, and have not
  /// ended. `writes` grows when a write ends. `last_write_ns`: the file system's time of the last write.
  alignas(64) std::atomic<std::uint32_t> busy{0};
  std::atomic<std::uint64_t> writes{0};
  std::atomic<std::int64_t> last_write_ns{0};

  /// The holder calls it before an operation. False: the lease has ended. True: end() must follow. The two sides cannot
  /// miss each other: the holder announces its operation before it reads `state`, and the server recalls before it
  /// counts operations.
  bool begin() {
    busy.fetch_add(1, std::memory_order_seq_cst);
    if (state.load(std::memory_order_seq_cst) == kGranted) return true;
    busy.fetch_sub(1, std::memory_order_seq_cst);
    return false;
  }
  /// False: the operation had no effect, or it is unknown whether it had one.
  bool end() {
    const bool fine = state.load(std::memory_order_seq_cst) != kFenced;
    busy.fetch_sub(1, std::memory_order_seq_cst);
    return fine;
  }
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(LeaseWords) == 256);

}  // namespace spate
