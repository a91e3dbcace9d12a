// SPDX-License-Identifier: Apache-2.0
// LeaseWords: what an io server and the holder of a bypass lease tell each other without a message. docs/data-paths.md,
// "Bypass"; byte by byte in docs/disk-datafiles.md, "Leases".
#pragma once

#include <atomic>
#include <cstdint>

#include "model/ids.h"

namespace spate {

/// The first page of a lease's file, in the byte order of the machine, which both share. A holder that may only read
/// has it mapped for reading: then only `state` is of use.
struct LeaseWords {
  static constexpr std::uint64_t kMagic = 0x31657361654c7053ULL;  // "SpLease1"
  enum State : std::uint32_t {
    kGranted = 0,
    kRecalled = 1,  // no operation begins any more
    kFenced = 2,    // and what was under way has gone nowhere: the datafile is another file now
  };

  std::uint64_t magic = kMagic;
  std::uint64_t handle = 0;
  std::uint64_t client = 0;
  std::uint32_t slot = 0;
  std::uint32_t epoch = 0;
  std::uint32_t writable = 0;
  std::uint32_t reserved = 0;
  char boot_id[40] = {};  // of the kernel that granted it

  /// Written by the server. A cache line of its own: the holder reads it before each operation.
  alignas(64) std::atomic<std::uint32_t> state{kGranted};
  /// Written by a holder that may write. `busy`: operations that have looked at `state`, or are about to, and have not
  /// ended. `writes` grows when one has ended; `last_write_ns`: the file system's time of the last one.
  alignas(64) std::atomic<std::uint32_t> busy{0};
  std::atomic<std::uint64_t> writes{0};
  std::atomic<std::int64_t> last_write_ns{0};

  /// The holder, before an operation. False: there is no lease any more. True: end() must follow. The two sides cannot
  /// miss each other: the holder announces itself and then looks, the server recalls and then counts.
  bool begin() {
    busy.fetch_add(1, std::memory_order_seq_cst);
    if (state.load(std::memory_order_seq_cst) == kGranted) return true;
    busy.fetch_sub(1, std::memory_order_seq_cst);
    return false;
  }
  /// False: the operation has gone nowhere, or nobody knows.
  bool end() {
    const bool fine = state.load(std::memory_order_seq_cst) != kFenced;
    busy.fetch_sub(1, std::memory_order_seq_cst);
    return fine;
  }
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(LeaseWords) == 256);

}  // namespace spate
