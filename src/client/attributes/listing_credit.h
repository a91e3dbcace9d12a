// SPDX-License-Identifier: Apache-2.0
// ListingCredit: how many entries listings may bring with leases before any of them is used.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace spate::client {

/// Stops a scan of a large tree that only looks at names from asking for leases for long. Not thread-safe.
class ListingCredit {
 public:
  bool left() const { return entries_ > 0; }
  void listed(std::size_t entries) {
    entries_ -= std::min(entries_, static_cast<std::int64_t>(std::min<std::size_t>(entries, kMost)));
  }
  /// A program has used an entry that a listing has brought, or might have brought.
  void used() { entries_ = std::min(entries_ + kOfAUse, kMost); }

 private:
  // Guesses. If programs use one entry in kOfAUse, the leases on the other entries pay, too.
  static constexpr std::int64_t kMost = 16384;
  static constexpr std::int64_t kOfAUse = 8;

  std::int64_t entries_ = kMost;
};

}  // namespace spate::client
