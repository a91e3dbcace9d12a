// SPDX-License-Identifier: Apache-2.0
#include "bmi/shm/lane.h"

#include <algorithm>

#include "base/check.h"

namespace spate::bmi::shm {
namespace {

constexpr std::uint64_t kLine = 64;
// Payload bytes of one frame. It is large enough that the slot costs little beside it, and small enough that both sides
// copy at the same time (bmi_shm_bench).
constexpr std::uint64_t kChunk = 32 * 1024;

// How far ahead of the copy the payload's cache lines are fetched.
constexpr std::uint64_t kAhead = 1280;

/// Fetches a cache line for writing. __builtin_prefetch fetches for reading only, unless the compiler may assume a
/// newer processor than this build may.
void prefetch_to_write(const void* at) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(at)));
#else
  __builtin_prefetch(at, 1);
#endif
}

std::uint64_t in_data(std::uint64_t chunk) { return chunk <= kInlineBytes ? 0 : (chunk + kLine - 1) / kLine * kLine; }

Room stretch_at(MutableByteView data, std::uint64_t position, std::uint64_t size) {
  const std::uint64_t at = position & (data.size() - 1);
  const std::uint64_t first = std::min<std::uint64_t>(size, data.size() - at);
  return Room{data.subspan(at, first), data.first(size - first)};
}

}  // namespace

LaneWriter::LaneWriter(std::span<FrameSlot> slots, MutableByteView data, const std::atomic<std::uint64_t>& slots_taken,
                       const std::atomic<std::uint64_t>& bytes_taken)
    : slots_(slots),
      data_(data),
      slots_taken_(&slots_taken),
      bytes_taken_(&bytes_taken),
      max_chunk_(std::min<std::uint64_t>(kChunk, data.size() / 4)),
      slots_free_(slots.size()),
      bytes_free_(data.size()) {}

bool LaneWriter::has_room(std::uint64_t chunk) {
  if (slots_free_ > 0 && bytes_free_ >= in_data(chunk)) return true;
  refresh();
  return slots_free_ > 0 && bytes_free_ >= in_data(chunk);
}

void LaneWriter::refresh() {
  if (broken_) return;
  // The two counters are read one after the other. Neither of them can be ahead of what the reader has done.
  const std::uint64_t slots_used = slot_ - slots_taken_->load(std::memory_order_seq_cst);
  const std::uint64_t bytes_used = byte_ - bytes_taken_->load(std::memory_order_seq_cst);
  // The use never grows here. A reader that takes back room, or frees more than it had, is broken.
  if (slots_used > slots_.size() - slots_free_ || bytes_used > data_.size() - bytes_free_) {
    broken_ = true;
    slots_free_ = 0;
    return;
  }
  slots_free_ = slots_.size() - slots_used;
  bytes_free_ = data_.size() - bytes_used;
}

Room LaneWriter::room(std::uint64_t chunk) { return stretch_at(data_, byte_, chunk); }

void LaneWriter::publish(const FrameHeader& header, std::uint64_t chunk, const InlineWords& small) {
  SPATE_CHECK(slots_free_ > 0 && bytes_free_ >= in_data(chunk));
  FrameSlot& slot = slots_[slot_ & (slots_.size() - 1)];
  slot[1].store(header.tag, std::memory_order_relaxed);
  slot[2].store(header.length, std::memory_order_relaxed);
  slot[3].store(header.id, std::memory_order_relaxed);
  slot[4].store(chunk, std::memory_order_relaxed);
  if (chunk <= kInlineBytes) {
    for (std::size_t i = 0; i < small.size(); ++i) slot[5 + i].store(small[i], std::memory_order_relaxed);
  }
  ++slot_;
  const std::uint64_t word = static_cast<std::uint64_t>(header.flags) << 48U |
                             static_cast<std::uint64_t>(header.message_class) << 40U |
                             static_cast<std::uint64_t>(header.type) << 32U | (slot_ & 0xFFFFFFFFU);
  // This store and the following read of `waits` are sequentially consistent. So either the reader sees the frame
  // before it sleeps, or this side sees that the reader sleeps.
  slot[0].store(word, std::memory_order_seq_cst);
  byte_ += in_data(chunk);
  bytes_free_ -= in_data(chunk);
  --slots_free_;
  // Fetches lines that have been in the reader's cache since the last lap. The next message may be as long as this one.
  prefetch_to_write(&slots_[slot_ & (slots_.size() - 1)]);
  const std::uint64_t ahead = std::min(in_data(chunk), kAhead);
  for (std::uint64_t i = 0; i < ahead; i += kLine) prefetch_to_write(&data_[(byte_ + i) & (data_.size() - 1)]);
}

LaneReader::LaneReader(std::span<FrameSlot> slots, MutableByteView data, std::atomic<std::uint64_t>& slots_taken,
                       std::atomic<std::uint64_t>& bytes_taken)
    : slots_(slots), data_(data), slots_taken_(&slots_taken), bytes_taken_(&bytes_taken) {}

LaneReader::Look LaneReader::look(Frame& frame) const {
  const FrameSlot& slot = slots_[slot_ & (slots_.size() - 1)];
  // Fetches the payload together with its slot instead of after it.
  __builtin_prefetch(&data_[byte_ & (data_.size() - 1)]);
  const std::uint64_t word = slot[0].load(std::memory_order_acquire);
  if (static_cast<std::uint32_t>(word) != static_cast<std::uint32_t>(slot_ + 1)) return Look::kNothing;
  const auto type = static_cast<std::uint8_t>(word >> 32U);
  const auto message_class = static_cast<std::uint8_t>(word >> 40U);
  frame.header.flags = static_cast<std::uint8_t>(word >> 48U);
  const std::uint64_t chunk = slot[4].load(std::memory_order_relaxed);
  const bool good = type >= 1 && type <= static_cast<std::uint8_t>(kLastFrameType) && message_class < kClasses &&
                    frame.header.flags <= (kFlagTooBig | kFlagLocated) && word >> 56U == 0 && chunk <= data_.size() / 4;
  if (!good) return Look::kInvalid;
  frame.header.type = static_cast<FrameType>(type);
  frame.header.message_class = static_cast<MessageClass>(message_class);
  frame.header.tag = slot[1].load(std::memory_order_relaxed);
  frame.header.length = slot[2].load(std::memory_order_relaxed);
  frame.header.id = slot[3].load(std::memory_order_relaxed);
  frame.chunk = static_cast<std::uint32_t>(chunk);
  if (chunk <= kInlineBytes) {
    for (std::size_t i = 0; i < frame.small.size(); ++i) frame.small[i] = slot[5 + i].load(std::memory_order_relaxed);
  }
  return Look::kFrame;
}

Room LaneReader::payload(std::uint64_t chunk) const { return stretch_at(data_, byte_, chunk); }

void LaneReader::take(const Frame& frame) {
  ++slot_;
  byte_ += in_data(frame.chunk);
}

bool LaneReader::publish_taken() {
  if (slot_ == published_) return false;
  published_ = slot_;
  bytes_taken_->store(byte_, std::memory_order_release);
  slots_taken_->store(slot_, std::memory_order_seq_cst);
  return true;
}

bool LaneReader::worth_a_wake() {
  const bool half = slot_ - slot_at_wake_ >= slots_.size() / 2 || byte_ - byte_at_wake_ >= data_.size() / 2;
  if (!half && ready()) return false;
  slot_at_wake_ = slot_;
  byte_at_wake_ = byte_;
  return true;
}

}  // namespace spate::bmi::shm
