// SPDX-License-Identifier: Apache-2.0
// Strangers: the accepted connections of a module whose peers are not admitted yet, and which of them must go when they
// are too many. docs/security.md, "Network".
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "bmi/network.h"

namespace spate::bmi {

/// `Key` names a stranger, as the module likes (a pointer to its connection, a PeerId). A source is whatever the module
/// says a stranger comes from: one machine, one user. Not thread-safe (the module's lock).
template <typename Key>
class Strangers {
 public:
  /// Adds a stranger that is not in the table. Returns who has to go for it, still in the table, or nothing while the
  /// limits hold: a random other one of its source when its source has too many; of the most crowded source when there
  /// are too many in all. Random, so that a flood cannot be sure to push out the one that it is aimed at. O(strangers)
  /// at a limit.
  std::optional<Key> add(Key key, const std::string& source, const StrangerLimits& limits, Random& random) {
    std::vector<Key>& same = by_source_[source];
    same.push_back(key);
    source_of_.emplace(key, source);
    if (limits.apply() && same.size() > limits.most_of_a_source) return other_of(same, key, random);
    if (source_of_.size() <= limits.most) return std::nullopt;
    const std::vector<Key>* crowd = &same;
    for (const auto& [name, members] : by_source_) {
      if (members.size() > crowd->size()) crowd = &members;
    }
    return other_of(*crowd, key, random);
  }

  /// Admitted, or gone. Unknown: no effect.
  void remove(Key key) {
    const auto found = source_of_.find(key);
    if (found == source_of_.end()) return;
    const auto source = by_source_.find(found->second);
    std::erase(source->second, key);
    if (source->second.empty()) by_source_.erase(source);
    source_of_.erase(found);
  }

  std::size_t size() const { return source_of_.size(); }

 private:
  /// One of `members` that is not `key`; nothing when there is no other.
  static std::optional<Key> other_of(const std::vector<Key>& members, Key key, Random& random) {
    if (members.size() == 1 && members.front() == key) return std::nullopt;
    const std::size_t choices = members.size() - (members.back() == key ? 1 : 0);  // the newest is the last
    return members[static_cast<std::size_t>(random.below(choices))];
  }

  std::map<std::string, std::vector<Key>> by_source_;  // each in the order of arrival
  std::unordered_map<Key, std::string> source_of_;
};

}  // namespace spate::bmi
