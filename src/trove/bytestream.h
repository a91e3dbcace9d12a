// SPDX-License-Identifier: Apache-2.0
// Bytestreams: the datafiles of one target (storage device). Post and test, like bmi. On disk: docs/disk.md,
// "Datafiles".
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "model/extent.h"
#include "model/ids.h"
#include "trove/lease_page.h"

namespace spate::trove {

/// A range of a datafile (physical offset), bytes. offset + size <= 2^63 - 1.
using Extent = ::spate::Extent;
constexpr std::uint64_t kMaxDatafileBytes = (std::uint64_t{1} << 63U) - 1;

/// The state of a datafile. For a datafile that was never written, all of it is zero.
struct BytestreamStat {
  std::uint64_t size = 0;             // bytes
  std::uint64_t allocated_bytes = 0;  // space on the device
  std::uint64_t change_counter = 0;   // grows with every change and every allocate, also across restarts
  WallTime mtime;                     // last change of content, file-system time
};

/// Whether a target's datafiles can be read and written past the page cache (O_DIRECT), and how.
struct DirectAbility {
  std::uint32_t alignment = 0;  // of offsets, sizes and memory, bytes; 0: no direct access
  std::string refusal;          // why there is no direct access, as a text for people
};

/// An open datafile. Its descriptor stays valid while this object lives, even after the datafile was removed.
class OpenDatafile {
 public:
  virtual ~OpenDatafile() = default;
  virtual int descriptor() const = 0;
};

enum class BytestreamOp : std::uint8_t {
  kRead,      // extents -> memory; stops at the datafile's end (a short count; the rest of memory is untouched)
  kWrite,     // memory -> extents; creates the datafile (0600) at its first write
  kTruncate,  // to `size`, up or down
  kPunch,     // extents become zeros; the size stays; creates the datafile, which keeps the time
  kAllocate,  // space for extents is reserved; counter and mtime move; the size stays unless it is to `extend`
  kSync,      // everything completed before is durable, the datafile's existence included
  kStat,
  kRemove,        // also succeeds if the datafile does not exist
  kOpen,          // yields `file`; kNotFound when the datafile was never written
  kMakeResident,  // extents are in the page cache afterwards (best effort), so that sendfile does not block
  kDataRanges,  // `ranges`: where data lies from `size` on, at most `max_ranges` of them (docs/consistency.md, "Holes")
  kCopy,        // copies `source` from `source_offset` on to the one extent, holes included; creates the datafile
  kProbeCache,  // `bytes`: how many bytes of the extents the page cache holds; kNotSupported: the kernel lacks the call
  kLend,        // `file`: a new descriptor for another process (`access` says what it allows); kNotFound as kOpen
  kNoteChange,  // another process has changed the content: counter and mtime move as for a write
  kReplace,     // moves the content to a new local file, durably; later writes by holders of the old one have no effect
};

/// The accesses that the holder of a lent descriptor has.
enum class LendAccess : std::uint8_t { kRead, kWrite, kBoth };

/// One operation. The spans are copied by the post; the memory belongs to the operation until its completion is seen.
struct BytestreamRequest {
  BytestreamOp op = BytestreamOp::kStat;
  DatafileId id;
  std::span<const Extent> extents;  // read, write, punch, allocate, make_resident, probe_cache: at most 2^20; copy: one
  std::span<const MutableByteView>
      memory;              // read, write: taken in order, total = total of extents; never written by kWrite
  std::uint64_t size = 0;  // truncate; data_ranges: where to begin
  WallTime now;            // write, truncate, punch, copy, note_change, allocate: becomes mtime (never moved back)
  bool extend = false;     // allocate: the datafile then reaches to the end of the extents at least
  /// Read, write: past the page cache, between the device and this memory. Offsets, sizes and memory are multiples of
  /// Bytestreams::direct().alignment, extents ascend; a read may reach beyond the datafile's end. Otherwise they return
  /// kInvalidArgument.
  bool direct = false;
  /// Write: only this store's operations change the datafile now. The store may then write small extents with small
  /// gaps by one call: it reads the bytes of the gaps before and writes them back.
  bool may_rewrite_gaps = false;
  /// Direct only: the memory belongs to a PCI device. kNotSupported: the target's device cannot move data to and from
  /// it.
  bool device_memory = false;
  LendAccess access = LendAccess::kRead;  // lend
  std::uint32_t max_ranges = 0;           // data_ranges: at least 1
  DatafileId source;                      // copy: of the same target; may be the datafile itself, without an overlap
  std::uint64_t source_offset = 0;        // copy
};

struct BytestreamCompletion {
  void* user = nullptr;
  Errc status = Errc::kOk;
  std::uint64_t bytes = 0;                   // read, write: moved; probe_cache: in the page cache
  std::uint64_t registered_bytes = 0;        // of these, moved to or from registered memory
  BytestreamStat stat;                       // after the operation: read, write, truncate, punch, stat
  std::shared_ptr<const OpenDatafile> file;  // open, lend
  /// data_ranges: ascending. The ranges contain all bytes that were written before, and may contain bytes that were not
  /// (the local file system's blocks). `complete_to`: where the search ended; kMaxDatafileBytes if it covered
  /// everything.
  std::vector<Extent> ranges;
  std::uint64_t complete_to = 0;
};

struct SpaceInfo {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t total_files = 0;
  std::uint64_t free_files = 0;
};

/// The datafiles of one target. The functions that begin, end or observe operations never block; the others say when
/// they may.
///
/// Life cycle: made by its module -> post() and test(), as often as wanted -> destroyed. Each post() gives exactly one
/// completion: in `done` if it returns true, otherwise from a later test(). Operations may complete in any order, also
/// those of one datafile. A caller that needs an order posts the second operation after the completion of the first
/// one. The destructor waits for the operations in flight and drops their completions; then nothing uses the memory of
/// their requests any more. (The simulated store does not wait: its destructor is the death of the process.)
///
/// Threads: one at a time, the thread of the executor. Several executors can share a target, each with its own
/// Bytestreams.
///
/// Failure: a failed write may have had part of its effect. A failed truncate, punch or remove may have had its effect
/// or not. kNoSpace leaves earlier data intact.
class Bytestreams {
 public:
  virtual ~Bytestreams() = default;

  /// True: done at once, `done` is filled and nothing will be queued. False: a completion will come from test().
  virtual bool post(const BytestreamRequest& request, void* user, BytestreamCompletion& done) = 0;
  /// Moves up to out.size() completions into `out` and returns how many. Never waits.
  virtual std::size_t test(std::span<BytestreamCompletion> out) = 0;
  /// Readable when test() may find something; -1 in virtual time.
  virtual int wait_descriptor() const = 0;
  /// Call it before waiting for wait_descriptor(). False: test() may find something already, so do not wait.
  virtual bool prepare_to_wait() = 0;

  /// Up to `max` datafiles after `after`, for fsck. The order is stable while nothing is added. May block.
  virtual Result<std::vector<DatafileId>> list(DatafileId after, std::size_t max) = 0;
  /// May block briefly (statfs).
  virtual Result<SpaceInfo> space() = 0;
  /// The answer never changes. By default there is no direct access.
  virtual DirectAbility direct() const { return {0, "this target's storage has no direct access"}; }
  /// Tries whether the target's device can move data to `memory` of a PCI device by itself. It reads into `memory`,
  /// which must hold at least one block of the direct alignment, aligned to it, and which is overwritten.
  /// kNotSupported: it cannot. May block.
  virtual Result<void> try_device_memory(MutableByteView memory);
  /// Registers `memory` (whole pages) with the kernel, which saves work in each direct read and write that lies in it
  /// (see BytestreamCompletion::registered_bytes). The memory stays pinned until forget_memory(). The caller keeps it
  /// until then, and calls forget_memory() when nothing is in flight. kNotSupported: this module registers no memory.
  /// kBusy: it has no room for more. Otherwise the kernel's reason (RLIMIT_MEMLOCK). After a failure requests move this
  /// memory as any other.
  virtual Result<void> register_memory(MutableByteView memory);
  virtual void forget_memory(MutableByteView /*memory*/) {}
  /// Makes a page for a bypass lease (lease_page.h). kNotSupported: other processes cannot open this module's
  /// datafiles.
  virtual Result<std::unique_ptr<LeasePage>> make_lease(const LeaseTitle& title);
  /// Returns the pages that an earlier process left. Call it only once. May block.
  virtual Result<std::vector<std::unique_ptr<LeasePage>>> left_leases();
  /// "uring", "pool", "mem", "sim", "fault(...)": for logs and status.
  virtual std::string describe() const = 0;
};

}  // namespace spate::trove
