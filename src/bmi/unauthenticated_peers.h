// SPDX-License-Identifier: Apache-2.0
// Unauthenticated peers: the accepted connections of a module whose peers are not admitted yet. It chooses which one to
// drop when there are too many. docs/security.md, "Network".
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

/// `Key` names an unauthenticated peer; the module chooses the type (a pointer to its connection, a PeerId). A source
/// is where a unauthenticated peer comes from, as the module defines it: one machine, one user. Not thread-safe: the
/// module's lock guards it.
template <typename Key>
class UnauthenticatedPeers {
 public:
  /// Adds an unauthenticated peer that is not in the table. If the limits hold, it returns nothing. Otherwise it
  /// returns the unauthenticated peer to drop, which is still in the table: one of the same source if that source has
  /// too many, else one of the most crowded source. It prefers unauthenticated peers that have asked for nothing yet,
  /// so that a flood of mere connections does not push out peers whose handshake is under way. Among these it chooses
  /// at random, so that an attacker cannot choose the victim. O(sources).
  std::optional<Key> add(Key key, const std::string& source, const UnauthenticatedPeerLimits& limits, Random& random) {
    Group& same = by_source_[source];
    same.silent.push_back(key);
    source_of_.emplace(key, source);
    if (limits.apply() && same.size() > limits.most_of_a_source) return other_of(same, key, random);
    if (source_of_.size() <= limits.most) return std::nullopt;
    const Group* crowd = most_crowded(same, random);
    return crowd == nullptr ? std::nullopt : other_of(*crowd, key, random);
  }

  /// The unauthenticated peer has sent a request. Unknown key: no effect.
  void asked(Key key) {
    const auto found = source_of_.find(key);
    if (found == source_of_.end()) return;
    Group& group = by_source_.at(found->second);
    if (std::erase(group.silent, key) > 0) group.asking.push_back(key);
  }

  /// The unauthenticated peer was admitted, or is gone. Unknown key: no effect.
  void remove(Key key) {
    const auto found = source_of_.find(key);
    if (found == source_of_.end()) return;
    const auto group = by_source_.find(found->second);
    std::erase(group->second.silent, key);
    std::erase(group->second.asking, key);
    if (group->second.size() == 0) by_source_.erase(group);
    source_of_.erase(found);
  }

  /// An unauthenticated peer for which `wanted(key)` holds. O(unauthenticated peers).
  template <typename Wanted>
  std::optional<Key> find_if(Wanted wanted) const {
    for (const auto& [key, source] : source_of_) {
      if (wanted(key)) return key;
    }
    return std::nullopt;
  }

  std::size_t size() const { return source_of_.size(); }

 private:
  /// The unauthenticated peers of one source.
  struct Group {
    std::vector<Key> silent;  // in the order of arrival
    std::vector<Key> asking;
    std::size_t size() const { return silent.size() + asking.size(); }
  };

  /// Returns the source with the most members, without counting the newest member of `own`. Among equal sources it
  /// chooses at random. Null: there is no other unauthenticated peer.
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
  /// Returns a member other than `key`, which is the newest unauthenticated peer. Nothing when there is no other
  /// member.
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
