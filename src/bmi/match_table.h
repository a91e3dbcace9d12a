// SPDX-License-Identifier: Apache-2.0
// MatchTable: nodes by tag, in order among equal tags. The nodes are posted receives, or messages that arrived before
// their receives.
#pragma once

#include <cstdint>
#include <vector>

#include "bmi/node_list.h"

namespace spate::bmi {

/// Open addressing with one slot for each tag in use; O(1) per call. It holds no memory while it is empty, since there
/// are many peers and most have one or two tags in use at a time.
class MatchTable {
 public:
  /// `seed`: random, so that a peer cannot choose tags that collide.
  explicit MatchTable(std::uint64_t seed) : seed_(seed) {}

  bool empty() const { return tags_ == 0; }
  /// The first node of `tag`, or null.
  Node* front(std::uint64_t tag) const;
  /// Removes the first node of `tag` and returns it, or null.
  Node* take_front(std::uint64_t tag);
  void push_back(Node& node) { list_for(node.tag).push_back(node); }
  void push_front(Node& node) { list_for(node.tag).push_front(node); }
  /// `node` is in the table.
  void remove(Node& node);
  /// Removes any node and returns it; null if the table is empty. Used to clear the table.
  Node* take_any();

 private:
  struct TagEntry {
    std::uint64_t tag = 0;
    NodeList nodes;  // empty: a free slot
  };

  std::size_t home(std::uint64_t tag) const;
  /// The slot of `tag`, or the free one where it would go. The table has slots.
  std::size_t slot_of(std::uint64_t tag) const;
  NodeList& list_for(std::uint64_t tag);
  void free_slot(std::size_t slot);
  void resize(std::size_t slots);

  std::uint64_t seed_;
  std::size_t tags_ = 0;
  std::vector<TagEntry> slots_;  // a power of two, at most 2/3 full
};

}  // namespace spate::bmi
