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
  /// limits hold: another one of its source when its source has too many; of the most crowded source when there are too
  /// many in all. One that has asked for nothing yet, if there is one, so that a flood which only connects does not
  /// push out who is being greeted; of these a random one, so that it cannot be sure whom it pushes out. O(sources).
  std::optional<Key> add(Key key, const std::string& source, const StrangerLimits& limits, Random& random) {
    Group& same = by_source_[source];
    same.silent.push_back(key);
    source_of_.emplace(key, source);
    if (limits.apply() && same.size() > limits.most_of_a_source) return other_of(same, key, random);
    if (source_of_.size() <= limits.most) return std::nullopt;
    const Group* crowd = most_crowded(same, random);
    return crowd == nullptr ? std::nullopt : other_of(*crowd, key, random);
  }

  /// It has asked for something. Unknown: no effect.
  void asked(Key key) {
    const auto found = source_of_.find(key);
    if (found == source_of_.end()) return;
    Group& group = by_source_.at(found->second);
    if (std::erase(group.silent, key) > 0) group.asking.push_back(key);
  }

  /// Admitted, or gone. Unknown: no effect.
  void remove(Key key) {
    const auto found = source_of_.find(key);
    if (found == source_of_.end()) return;
    const auto group = by_source_.find(found->second);
    std::erase(group->second.silent, key);
    std::erase(group->second.asking, key);
    if (group->second.size() == 0) by_source_.erase(group);
    source_of_.erase(found);
  }

  /// One for which `wanted(key)` holds. O(strangers).
  template <typename Wanted>
  std::optional<Key> find_if(Wanted wanted) const {
    for (const auto& [key, source] : source_of_) {
      if (wanted(key)) return key;
    }
    return std::nullopt;
  }

  std::size_t size() const { return source_of_.size(); }

 private:
  /// Of one source.
  struct Group {
    std::vector<Key> silent;  // in the order of arrival
    std::vector<Key> asking;
    std::size_t size() const { return silent.size() + asking.size(); }
  };

  /// The source with most members, the newest one of `own` not counted; of several such sources a random one. Null:
  /// there is nobody else.
  const Group* most_crowded(const Group& own, Random& random) const {
    const Group* crowd = nullptr;
    std::size_t most = 1;
    std::uint64_t ties = 0;
    for (const auto& [source, group] : by_source_) {
      const std::size_t size = group.size() - (&group == &own ? 1 : 0);
      if (size < most) continue;
      ties = size == most ? ties + 1 : 1;
      most = size;
      if (random.below(ties) == 0) crowd = &group;
    }
    return crowd;
  }
  /// Not `key`, the newest. Nothing when there is no other.
  static std::optional<Key> other_of(const Group& group, Key key, Random& random) {
    const std::size_t silent = group.silent.size() - (!group.silent.empty() && group.silent.back() == key ? 1 : 0);
    const std::vector<Key>& members = silent > 0 ? group.silent : group.asking;
    const std::size_t choices = silent > 0 ? silent : group.asking.size();
    if (choices == 0) return std::nullopt;
    return members[static_cast<std::size_t>(random.below(choices))];
  }

  std::map<std::string, Group> by_source_;
  std::unordered_map<Key, std::string> source_of_;
};

}  // namespace spate::bmi
