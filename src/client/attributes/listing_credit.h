// SPDX-License-Identifier: Apache-2.0
// ListingCredit: how many entries listings may bring with leases before any of them is used.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace spate::client {

/// Not thread-safe. A scan of a large tree that only looks at names soon stops asking for leases.
class ListingCredit {
 public:
  bool left() const { return entries_ > 0; }
  void listed(std::size_t entries) {
    entries_ -= std::min(entries_, static_cast<std::int64_t>(std::min<std::size_t>(entries, kMost)));
  }
  /// An entry was used that a listing has brought or might have brought.
  void used() { entries_ = std::min(entries_ + kOfAUse, kMost); }

 private:
  // Guesses. If one entry in so many is used, the leases on the others pay, too.
  static constexpr std::int64_t kMost = 16384;
  static constexpr std::int64_t kOfAUse = 8;

  std::int64_t entries_ = kMost;
};

}  // namespace spate::client
