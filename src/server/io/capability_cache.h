// SPDX-License-Identifier: Apache-2.0
// CapabilityCache: capabilities whose MAC has been verified, so that each is hashed once.
#pragma once

#include <cstring>
#include <unordered_map>

#include "model/capability.h"

namespace spate::io {

/// Bounded: it has two generations, and drops the older one when the younger one is full. O(1). One executor.
class CapabilityCache {
 public:
  CapabilityCache(const KeyRing& server_keys, FsId fs, std::size_t max)
      : server_keys_(server_keys), fs_(fs), half_(max / 2 + 1) {}

  /// Whether the MAC is genuine for the capability's other fields.
  bool genuine(const Capability& capability);
  std::size_t size() const { return young_.size() + old_.size(); }
  /// MACs that were computed so far.
  std::uint64_t verifications() const { return verifications_; }

 private:
  struct MacHash {
    std::size_t operator()(const Mac& mac) const noexcept {
      std::size_t first = 0;  // the MAC's first bytes: they are as good as random
      std::memcpy(&first, mac.data(), sizeof(first));
      return first;
    }
  };
  using Table = std::unordered_map<Mac, Capability, MacHash>;

  void add(const Capability& capability);

  const KeyRing server_keys_;
  const FsId fs_;
  const std::size_t half_;
  Table young_;
  Table old_;
  std::uint64_t verifications_ = 0;
};

}  // namespace spate::io
