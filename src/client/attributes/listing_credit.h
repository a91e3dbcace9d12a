// SPDX-License-Identifier: Apache-2.0
// ListingCredit: how many entries listings may bring with leases before any of them is used.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace spate::client {

/// A scan of a large tree that looks at names only soon asks for no more leases. Not thread-safe.
class ListingCredit {
 public:
  bool left() const { return entries_ > 0; }
  void listed(std::size_t entries) {
    entries_ -= std::min(entries_, static_cast<std::int64_t>(std::min<std::size_t>(entries, kMost)));
  }
  /// An entry was used that a listing has brought, or might have brought.
  void used() { entries_ = std::min(entries_ + kOfAUse, kMost); }

 private:
  // Guesses. One entry in so many that is used makes the others worth their while.
  static constexpr std::int64_t kMost = 16384;
  static constexpr std::int64_t kOfAUse = 8;

  std::int64_t entries_ = kMost;
};

}  // namespace spate::client
