// SPDX-License-Identifier: Apache-2.0
#include "bmi/match_table.h"

#include "base/check.h"

namespace spate::bmi {
namespace {

constexpr std::size_t kSmall = 16;    // of a new table
constexpr std::size_t kLarge = 1024;  // a table with more slots gives its memory back when it is empty

}  // namespace

std::size_t MatchTable::home(std::uint64_t tag) const {
  // The finalizer of MurmurHash3 (public domain). The hash stays in memory; it is never stored or sent.
  std::uint64_t h = tag ^ seed_;
  h = (h ^ h >> 33U) * 0xff51afd7ed558ccdULL;
  h = (h ^ h >> 33U) * 0xc4ceb9fe1a85ec53ULL;
  return static_cast<std::size_t>(h ^ h >> 33U) & (slots_.size() - 1);
}

std::size_t MatchTable::slot_of(std::uint64_t tag) const {
  std::size_t slot = home(tag);
  while (!slots_[slot].nodes.empty() && slots_[slot].tag != tag) slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

Node* MatchTable::front(std::uint64_t tag) const { return tags_ == 0 ? nullptr : slots_[slot_of(tag)].nodes.front(); }

Node* MatchTable::take_front(std::uint64_t tag) {
  if (tags_ == 0) return nullptr;
  const std::size_t slot = slot_of(tag);
  Node* const node = slots_[slot].nodes.pop_front();
  if (node != nullptr && slots_[slot].nodes.empty()) free_slot(slot);
  return node;
}

NodeList& MatchTable::list_for(std::uint64_t tag) {
  if ((tags_ + 1) * 3 > slots_.size() * 2) resize(slots_.empty() ? kSmall : slots_.size() * 2);
  TagEntry& slot = slots_[slot_of(tag)];
  if (slot.nodes.empty()) {
    slot.tag = tag;
    ++tags_;
  }
  return slot.nodes;
}

void MatchTable::remove(Node& node) {
  SPATE_CHECK(tags_ > 0);
  const std::size_t slot = slot_of(node.tag);
  SPATE_CHECK(!slots_[slot].nodes.empty());
  slots_[slot].nodes.remove(node);
  if (slots_[slot].nodes.empty()) free_slot(slot);
}

void MatchTable::free_slot(std::size_t slot) {
  // Linear probing without tombstones: entries behind the hole that may stand in the hole move up.
  const std::size_t mask = slots_.size() - 1;
  std::size_t hole = slot;
  for (std::size_t i = (slot + 1) & mask; !slots_[i].nodes.empty(); i = (i + 1) & mask) {
    const std::size_t distance = (i - home(slots_[i].tag)) & mask;
    if (distance < ((i - hole) & mask)) continue;
    slots_[hole] = slots_[i];
    slots_[i].nodes = NodeList();
    hole = i;
  }
  --tags_;
  if (tags_ == 0 && slots_.size() > kLarge) std::vector<TagEntry>().swap(slots_);
}

void MatchTable::resize(std::size_t slots) {
  std::vector<TagEntry> old(slots);
  old.swap(slots_);
  for (TagEntry& slot : old) {
    if (!slot.nodes.empty()) slots_[slot_of(slot.tag)] = slot;
  }
}

Node* MatchTable::take_any() {
  if (tags_ == 0) return nullptr;
  std::size_t slot = 0;
  while (slots_[slot].nodes.empty()) ++slot;
  Node* node = slots_[slot].nodes.front();
  remove(*node);
  return node;
}

}  // namespace spate::bmi
