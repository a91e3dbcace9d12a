// SPDX-License-Identifier: Apache-2.0
// Device: the data of an export: a local file, a block device, or a striped file of a Spate file system.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "job/task.h"
#include "model/extent.h"

namespace spate::nbd {

struct ZeroParams {
  bool keep_allocated = false;  // NO_HOLE: later writes there must not run out of space
  bool only_if_fast = false;    // FAST_ZERO: kNotSupported at once rather than writing zeros
};

/// A run of bytes of one kind, for block status.
struct StatusExtent {
  std::uint64_t size = 0;
  std::uint32_t flags = 0;  // kHole, kZero
};

/// The caller makes sure that ranges lie within size(). Memory belongs to the operation until it ends. Not thread-safe:
/// one executor, any number of operations at a time. Every later operation of any connection sees a completed one.
///
/// Life cycle: opened -> operations -> close() awaited once -> destroyed. The caller waits for all operations before it
/// calls close(), and calls nothing afterwards, even if close() has failed. An operation that fails leaves the device
/// usable; a failed write or zero may have changed a part of its range. No operation can be aborted.
class Device {
 public:
  virtual ~Device() = default;

  /// The size in bytes, now or at the last look().
  virtual std::uint64_t size() = 0;
  /// Whether look() must ask a server for the size before a client learns it, and look() itself.
  virtual bool has_to_look() const { return false; }
  virtual job::Task<void> look() { co_return; }
  virtual bool read_only() const = 0;
  /// For the list: "file /a/b", "striped file spate:/x".
  virtual std::string describe() const = 0;
  /// The best size of a request, bytes, a power of two.
  virtual std::uint32_t preferred_block() const { return 4096; }

  // read_now() to least_sent() never wait: they do all of it, or do nothing and return false, -1 or kTryAgain.

  /// Reads all of `memory` from `offset`. kTryAgain: use read().
  virtual Result<void> read_now(std::uint64_t /*offset*/, MutableByteView /*memory*/) { return Errc::kTryAgain; }
  virtual Result<void> write_now(std::uint64_t /*offset*/, ByteView /*memory*/) { return Errc::kTryAgain; }
  /// Writes `size` bytes from a pipe that holds them. takes_pipes(): whether the device can do that at all.
  virtual bool takes_pipes() const { return false; }
  virtual Result<void> write_pipe_now(std::uint64_t /*offset*/, int /*pipe*/, std::size_t /*size*/) {
    return Errc::kTryAgain;
  }
  /// A descriptor from which sendfile can send these bytes without waiting for a disk; -1: none, or call
  /// make_resident() first.
  virtual int resident(const Extent& /*range*/) { return -1; }
  /// Whether make_resident() is worth calling.
  virtual bool has_pages() const { return false; }
  /// Reads of fewer bytes are cheaper to copy than to send from a descriptor, whatever the transport.
  virtual std::uint32_t least_sent() const { return 0; }

  virtual job::Task<Result<void>> read(std::uint64_t offset, MutableByteView memory) = 0;
  virtual job::Task<Result<void>> write(std::uint64_t offset, ByteView memory) = 0;
  virtual job::Task<Result<void>> write_pipe(std::uint64_t /*offset*/, int /*pipe*/, std::size_t /*size*/) {
    co_return Errc::kNotSupported;
  }
  /// Makes all completed writes durable.
  virtual job::Task<Result<void>> flush() = 0;
  /// The bytes are no longer needed. Until they are written again, they may read as anything.
  virtual job::Task<Result<void>> trim(Extent range) = 0;
  virtual job::Task<Result<void>> zero(Extent range, ZeroParams params) = 0;
  /// Brings the range into memory, so that reads of it and resident() need not wait.
  virtual job::Task<Result<void>> make_resident(Extent range) = 0;
  /// At most `max` extents (>= 1) that begin at the range's begin; at least one; their sum is at most the range.
  virtual job::Task<Result<std::vector<StatusExtent>>> status(Extent range, std::size_t max) = 0;
  virtual job::Task<Result<void>> close() = 0;

  /// Grows each time that acknowledged data may have been lost (a failed flush). Each flush of a client that was
  /// connected at that time reports it.
  std::uint64_t losses() const { return losses_; }

 protected:
  void note_loss() { ++losses_; }

 private:
  std::uint64_t losses_ = 0;
};

}  // namespace spate::nbd
