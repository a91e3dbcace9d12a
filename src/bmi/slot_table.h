// SPDX-License-Identifier: Apache-2.0
// SlotTable: per-operation state in an array indexed by op_slot(), in place of a hash table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace spate::bmi {

/// Default-constructed Ts, made in chunks on first use. A T never moves and is not destroyed before the table. Not
/// thread-safe.
template <typename T>
class SlotTable {
 public:
  /// The T of `slot`; allocates its chunk when needed. O(1).
  T& at(std::uint32_t slot) {
    const std::size_t chunk = slot / kChunk;
    if (chunk >= chunks_.size()) chunks_.resize(chunk + 1);
    if (chunks_[chunk] == nullptr) chunks_[chunk] = std::make_unique<std::array<T, kChunk>>();
    return (*chunks_[chunk])[slot % kChunk];
  }

  /// The T of `slot`, or null when its chunk was never used.
  T* find(std::uint32_t slot) {
    const std::size_t chunk = slot / kChunk;
    if (chunk >= chunks_.size() || chunks_[chunk] == nullptr) return nullptr;
    return &(*chunks_[chunk])[slot % kChunk];
  }

 private:
  static constexpr std::size_t kChunk = 256;
  std::vector<std::unique_ptr<std::array<T, kChunk>>> chunks_;
};

}  // namespace spate::bmi
