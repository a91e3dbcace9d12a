// SPDX-License-Identifier: Apache-2.0
#include "server/meta/core/name_filter.h"

namespace spate::meta {
namespace {

constexpr std::size_t kFirstSlots = 16;

// Uses other bits than those that choose the place. Otherwise all fingerprints near one place in a full table would be
// alike.
std::uint32_t fingerprint(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 24U) | 1U; }

/// The index of the fingerprint, or of the free slot where it belongs. The number of slots is a power of two.
std::size_t place_of(const std::vector<std::uint32_t>& slots, std::uint32_t print) {
  const std::size_t mask = slots.size() - 1;
  std::size_t at = (print * 0x9E3779B1U >> 4U) & mask;
  while (slots[at] != 0 && slots[at] != print) at = (at + 1) & mask;
  return at;
}

}  // namespace

void NameFilter::made(Handle directory) {
  if (kFirstSlots > max_slots_ || tables_.contains(directory)) return;
  make_room(directory);
  tables_[directory].slots.resize(kFirstSlots);
  slots_ += kFirstSlots;
  by_age_.push_back(directory);
  if (by_age_.size() > 2 * tables_.size() + kFirstSlots) {
    std::erase_if(by_age_, [this](Handle aged) { return !tables_.contains(aged); });
  }
}

void NameFilter::added(Handle directory, std::uint64_t name_hash) {
  const auto found = tables_.find(directory);
  if (found == tables_.end()) return;
  Table& table = found->second;
  const std::uint32_t print = fingerprint(name_hash);
  const std::size_t at = place_of(table.slots, print);
  if (table.slots[at] == print) return;
  table.slots[at] = print;
  if (++table.used * 4 <= table.slots.size() * 3) return;
  if (table.slots.size() * 2 > max_slots_) return forget(directory);
  grow(table);
  make_room(directory);
}

bool NameFilter::never_had(Handle directory, std::uint64_t name_hash) const {
  const auto found = tables_.find(directory);
  if (found == tables_.end()) return false;
  const std::vector<std::uint32_t>& slots = found->second.slots;
  return slots[place_of(slots, fingerprint(name_hash))] == 0;
}

void NameFilter::clear() {
  tables_.clear();
  by_age_.clear();
  slots_ = 0;
}

void NameFilter::grow(Table& table) {
  std::vector<std::uint32_t> larger(table.slots.size() * 2);
  for (const std::uint32_t print : table.slots) {
    if (print != 0) larger[place_of(larger, print)] = print;
  }
  slots_ += larger.size() - table.slots.size();
  table.slots = std::move(larger);
}

void NameFilter::forget(Handle directory) {
  const auto found = tables_.find(directory);
  if (found == tables_.end()) return;
  slots_ -= found->second.slots.size();
  tables_.erase(found);
}

/// Drops the oldest directories to make room for `wants`.
void NameFilter::make_room(Handle wants) {
  const std::size_t more = tables_.contains(wants) ? 0 : kFirstSlots;
  for (std::size_t left = by_age_.size(); slots_ + more > max_slots_ && left > 0; --left) {
    const Handle oldest = by_age_.front();
    by_age_.pop_front();
    if (oldest == wants) {
      by_age_.push_back(oldest);
    } else {
      forget(oldest);
    }
  }
}

}  // namespace spate::meta
