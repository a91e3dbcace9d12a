// SPDX-License-Identifier: Apache-2.0
// KnownXattrs: the names of extended attributes of objects that this client keeps under leases.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/ids.h"

namespace spate::client {

/// Remembers names that the meta server has listed. They are right as long as a lease shows that the object still has
/// the version that it had then, since each change of an extended attribute gives it another. Sends no messages. One
/// executor.
class KnownXattrs {
 public:
  /// An object in one state. `meta`: the process of the meta server that told its version, since a crash of its machine
  /// may lose a version, which then stands for another change.
  struct State {
    Handle object;
    std::uint64_t version = 0;
    Incarnation meta;
    friend bool operator==(const State&, const State&) = default;
  };
  using Names = std::vector<std::string>;

  /// Null: not known. The pointer is good until the next call.
  const Names* find(const State& state) const {
    const auto found = all_.find(state.object);
    return found != all_.end() && found->second.state == state ? &found->second.names : nullptr;
  }
  void keep(const State& state, const Names& names) {
    if (names.size() > kMostNames) return;
    if (all_.size() >= kMostObjects) all_.clear();
    all_[state.object] = {state, names};
  }

 private:
  struct Known {
    State state;
    Names names;
  };
  // Guesses. Nearly all objects have none.
  static constexpr std::size_t kMostObjects = 1U << 16U;
  static constexpr std::size_t kMostNames = 8;

  std::unordered_map<Handle, Known> all_;
};

}  // namespace spate::client
