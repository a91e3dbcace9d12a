// SPDX-License-Identifier: Apache-2.0
// The cache and listings: what a page of a directory brings under leases, and whether it is worth asking for.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "client/attributes/attribute_cache.h"

namespace spate::client {
namespace {

/// Of all that may be kept, the part that the names of one directory may take by being listed: what they lead to has to
/// fit beside them.
constexpr std::size_t kPartOfOneDirectory = 4;

}  // namespace

bool AttributeCache::worth_listing(Handle directory) const {
  if (!options_.on || options_.listings == Listings::kNames) return false;
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(directory);
  if (found != objects_.end() && !has_room_for(found->second)) return false;
  return options_.listings == Listings::kObjects || listing_credit_ > 0;
}

bool AttributeCache::has_room_for(const Object& directory) const {
  return directory.names.size() < options_.most / kPartOfOneDirectory;
}

void AttributeCache::earn(std::int64_t entries) {
  listing_credit_ = std::clamp<std::int64_t>(listing_credit_ + entries, 0, kMostListingCredit);
}

void AttributeCache::end_listing(const Lookup& lookup, Handle directory, const wire::ListLeaseReply* reply) {
  const std::lock_guard lock(mutex_);
  if (reply != nullptr) earn(-static_cast<std::int64_t>(reply->page.entries.size()));
  if (reply != nullptr && reply->granted) {
    meet_table(reply->table, reply->lease_ms);
    keep_page(lookup, directory, *reply);
  }
  --looking_;
  forget_events();
}

/// Drops what was used longest ago. False: there is nothing but the directory and what has come with it.
bool AttributeCache::make_room_beside(Handle directory) {
  while (objects_.size() + names_ + 2 > options_.most) {
    if (used_.front() == directory) return false;
    drop(used_.front());
  }
  return true;
}

/// Of a reply that does not add up nothing more is kept.
void AttributeCache::keep_page(const Lookup& lookup, Handle directory, const wire::ListLeaseReply& reply) {
  if (lookup.news < forgotten_) return;
  std::unordered_set<Handle> gone;  // recalled or changed since it was asked
  for (const Event& event : events_) {
    if (event.news > lookup.news) gone.insert(event.object);
  }
  if (gone.contains(directory)) return;
  const MonoTime until = lookup.asked + usable();
  Object& listed = renewed(directory, until);
  auto target = reply.targets.begin();
  auto refused = reply.refused.begin();
  for (std::size_t i = 0; i < reply.page.entries.size(); ++i) {
    const wire::DirectoryEntry& entry = reply.page.entries[i];
    std::string path;
    if (entry.type == FileType::kSymlink) {
      if (target == reply.targets.end()) return;
      path = *target++;
    }
    const bool granted = refused == reply.refused.end() || *refused != i;
    if (!granted) ++refused;
    if (!granted || !entry.attributes || gone.contains(entry.handle)) continue;
    if (!has_room_for(listed) || !make_room_beside(directory)) return;
    wire::ObjectReply object{*entry.attributes, entry.layout, std::move(path)};
    keep_listed(listed, {directory, entry.name, entry.handle, entry.type}, std::move(object), until);
  }
}

void AttributeCache::keep_listed(Object& directory, const wire::LeaseStep& name, wire::ObjectReply object,
                                 MonoTime until) {
  Object& at = renewed(name.object, until);
  // What is known already a look-up would not be needed for either.
  if (!at.reply) {
    at.listed = true;
    ++counters_.listed;
  }
  at.reply = std::move(object);
  at.order = 0;
  put_name(directory, name);
}

}  // namespace spate::client
