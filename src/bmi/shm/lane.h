// SPDX-License-Identifier: Apache-2.0
// Lanes: frames of one class in one direction through shared memory. docs/wire-shm.md, "Lanes".
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "bmi/shm/frame.h"

namespace spate::bmi::shm {

/// A frame that was read once, into private memory. It was checked only as far as LaneReader::look() promises.
struct Frame {
  FrameHeader header;
  std::uint32_t chunk = 0;  // payload bytes that come with this frame
  InlineWords small{};      // the payload, if chunk <= kInlineBytes
};

using protocol::Room;

/// The writing end of a lane. Not thread-safe. Both processes can write to the memory; the reader owns its counters.
class LaneWriter {
 public:
  LaneWriter() = default;
  /// `slots` and `data` lie in the segment; `slots_taken`, `bytes_taken` are the reader's.
  LaneWriter(std::span<FrameSlot> slots, MutableByteView data, const std::atomic<std::uint64_t>& slots_taken,
             const std::atomic<std::uint64_t>& bytes_taken);

  /// Largest payload of one frame.
  std::uint64_t max_chunk() const { return max_chunk_; }
  /// Whether there is room for a frame with `chunk` bytes (<= max_chunk()) of payload. O(1). Reads the reader's
  /// counters only if the remembered ones do not suffice.
  bool has_room(std::uint64_t chunk);
  /// The memory for the next frame's payload (kInlineBytes < chunk <= max_chunk(), has_room()).
  Room room(std::uint64_t chunk);
  /// Publishes a frame to the reader. Its payload was written to room(), or is `small`.
  void publish(const FrameHeader& header, std::uint64_t chunk, const InlineWords& small);
  /// Whether the reader's counters were invalid. The reader broke the protocol, and nothing more can be written.
  bool broken() const { return broken_; }
  /// Frames written so far.
  std::uint64_t frames() const { return slot_; }

 private:
  void refresh();

  std::span<FrameSlot> slots_;
  MutableByteView data_;
  const std::atomic<std::uint64_t>* slots_taken_ = nullptr;
  const std::atomic<std::uint64_t>* bytes_taken_ = nullptr;
  std::uint64_t max_chunk_ = 0;
  std::uint64_t slot_ = 0;        // next slot, counted since the beginning
  std::uint64_t byte_ = 0;        // next payload byte, likewise
  std::uint64_t slots_free_ = 0;  // the free slots at the last look at the reader's counter
  std::uint64_t bytes_free_ = 0;
  bool broken_ = false;
};

/// The reading end of a lane. Not thread-safe. The writer may change the memory at any time, so each word of a frame is
/// read only once.
class LaneReader {
 public:
  LaneReader() = default;
  /// `slots_taken`, `bytes_taken`: this side's counters.
  LaneReader(std::span<FrameSlot> slots, MutableByteView data, std::atomic<std::uint64_t>& slots_taken,
             std::atomic<std::uint64_t>& bytes_taken);

  /// Whether a frame is there.
  bool ready() const {
    return static_cast<std::uint32_t>(slots_[slot_ & (slots_.size() - 1)][0].load(std::memory_order_seq_cst)) ==
           static_cast<std::uint32_t>(slot_ + 1);
  }
  enum class Look : std::uint8_t { kNothing, kFrame, kInvalid };
  /// Reads the next frame without taking it. kInvalid: unknown type, class or flags, or more payload than the lane
  /// holds.
  Look look(Frame& frame) const;
  /// The payload of the frame that look() found, if chunk > kInlineBytes. The memory is the other process's: read it
  /// once.
  Room payload(std::uint64_t chunk) const;
  /// Releases that frame and its payload.
  void take(const Frame& frame);
  /// Tells the writer what was taken. True if anything was taken since the last call.
  bool publish_taken();
  /// Whether to wake the writer: the lane is empty, or half of it was taken since the last call that returned true.
  bool worth_a_wake();

 private:
  std::span<FrameSlot> slots_;
  MutableByteView data_;
  std::atomic<std::uint64_t>* slots_taken_ = nullptr;
  std::atomic<std::uint64_t>* bytes_taken_ = nullptr;
  std::uint64_t slot_ = 0;
  std::uint64_t byte_ = 0;
  std::uint64_t published_ = 0;  // slot_, as it was last told to the writer
  std::uint64_t slot_at_wake_ = 0;
  std::uint64_t byte_at_wake_ = 0;
};

}  // namespace spate::bmi::shm
