// SPDX-License-Identifier: Apache-2.0
// The cache and listings: the leases that a page of a directory brings, and whether to ask for such leases.
#include <unordered_set>
#include <utility>

#include "client/attributes/attribute_cache.h"

namespace spate::client {

bool AttributeCache::worth_listing(Handle directory) const {
  if (!options_.on || options_.listings == Listings::kNames) return false;
  const std::lock_guard lock(mutex_);
  const CachedObject* const found = objects_.find(directory);
  if (found != nullptr && !objects_.has_room_for(*found)) return false;
  return options_.listings == Listings::kObjects || listing_credit_.left();
}

void AttributeCache::end_listing(const Lookup& lookup, Handle directory, const wire::ListLeaseReply* reply) {
  const std::lock_guard lock(mutex_);
  if (reply != nullptr) listing_credit_.listed(reply->page.entries.size());
  if (reply != nullptr && reply->granted) {
    meet_table(reply->table, reply->lease_ms);
    keep_page(lookup, directory, *reply);
  }
  --looking_;
  forget_events();
}

/// Keeps the entries of a page. Stops at the first entry that contradicts the rest of the reply.
void AttributeCache::keep_page(const Lookup& lookup, Handle directory, const wire::ListLeaseReply& reply) {
  if (events_.too_long_ago(lookup.events_before)) return;
  std::unordered_set<Handle> gone;  // recalled or changed since the request was sent
  events_.for_each_since(lookup.events_before, [&](const RecentEvents::Event& event) { gone.insert(event.object); });
  if (gone.contains(directory)) return;
  const MonoTime until = lookup.asked + usable();
  CachedObject& listed = objects_.renewed(directory, until);
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
    if (!objects_.has_room_for(listed) || !objects_.make_room_beside(directory)) return;
    wire::ObjectReply object{*entry.attributes, entry.layout, std::move(path)};
    keep_listed(listed, {directory, entry.name, entry.handle, entry.type}, std::move(object), until);
  }
}

void AttributeCache::keep_listed(CachedObject& directory, const wire::LeaseStep& name, wire::ObjectReply object,
                                 MonoTime until) {
  CachedObject& at = objects_.renewed(name.object, until);
  // A look-up of these names would need no request either.
  if (!at.reply) {
    at.listed = true;
    ++counters_.listed;
  }
  at.reply = std::move(object);
  at.order = 0;
  objects_.put_name(directory, name);
}

}  // namespace spate::client
