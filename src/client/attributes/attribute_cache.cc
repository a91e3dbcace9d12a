// SPDX-License-Identifier: Apache-2.0
#include "client/attributes/attribute_cache.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace spate::client {
namespace {

std::string_view next_component(std::string_view& path) {
  const std::size_t begin = path.find_first_not_of('/');
  if (begin == std::string_view::npos) return path = {};
  path.remove_prefix(begin);
  const std::string_view component = path.substr(0, path.find('/'));
  path.remove_prefix(component.size());
  return component;
}

/// Whether a name can be looked up. Other components fail with errors of their own.
bool may_be_a_name(std::string_view component) {
  return component.size() <= kMaxNameBytes && component.find('\0') == std::string_view::npos;
}

/// Whether anything in the reply was recalled or changed after event number `since`.
bool recalled_since(const RecentEvents& events, std::uint64_t since, const wire::LookupLeaseReply& reply) {
  if (events.too_long_ago(since)) return true;
  return events.any_since(since, [&](const RecentEvents::Event& event) {
    if (reply.object && reply.object->attributes.handle == event.object) return true;
    return std::any_of(reply.steps.begin(), reply.steps.end(),
                       [&](const wire::LeaseStep& step) { return step.directory == event.object; });
  });
}

/// A copy that may be used for a shorter time is of no use for its holder.
constexpr Duration kLeastCopyTime = std::chrono::milliseconds(10);

}  // namespace

AttributeCache::AttributeCache(Options options, const Clock& clock)
    : options_(options),
      clock_(clock),
      copies_(options.copies),
      changes_(copies_),
      objects_(options.most, clock, changes_, copies_) {
  SPATE_CHECK(options.most >= 16);
}

/// Leaves a tenth of the lease unused, because the clocks of two machines differ a little in speed.
Duration AttributeCache::usable() const { return lease_ - lease_ / 10; }

/// Follows the path in the cache. Nothing: the server must be asked, also for links and dots.
std::optional<AttributeCache::Found> AttributeCache::walk(const wire::NamePath& where) {
  if (!options_.on) return std::nullopt;
  const MonoTime now = clock_.now();
  if (all_blocked(now)) return std::nullopt;
  Handle here = where.start;
  CachedObject* at = objects_.use(here, now);
  if (at == nullptr) return std::nullopt;
  std::string_view rest = where.path;
  while (!rest.empty()) {
    const std::string_view component = next_component(rest);
    if (component.empty() || component == "." || component == "..") return std::nullopt;
    if (changes_.touch(here, component)) return std::nullopt;
    const auto name = at->names.find(component);
    const bool known = name != at->names.end();
    if (!known && !(at->complete && may_be_a_name(component))) return std::nullopt;
    if (!known || !name->second.object) return Found{nullptr, true};
    const bool last = rest.empty();
    const bool link = name->second.type == FileType::kSymlink;
    if (last ? link && (where.flags & wire::NamePath::kFollowLast) != 0 : name->second.type != FileType::kDirectory)
      return std::nullopt;
    here = name->second.object;
    at = objects_.use(here, now);
    if (at == nullptr) return std::nullopt;
  }
  if (!at->reply || at->may_lose_setid_bits() || changes_.touch_entries_of(here)) return std::nullopt;
  if (std::exchange(at->listed, false)) listing_credit_.used();
  return Found{at, false};
}

std::optional<Result<wire::ObjectReply>> AttributeCache::find(const wire::NamePath& where) {
  const std::lock_guard lock(mutex_);
  const auto found = walk(where);
  ++(found ? counters_.hits : counters_.misses);
  if (!found) return std::nullopt;
  if (found->nothing) return Result<wire::ObjectReply>(Errc::kNotFound);
  const wire::ObjectReply& reply = *found->object->reply;
  // The server has not told yet where its data is, and only the servers know its size.
  if (found->object->made_in && !reply.attributes.size_known && !reply.layout) return std::nullopt;
  return Result<wire::ObjectReply>(reply);
}

std::optional<Result<Attributes>> AttributeCache::find_attributes(const wire::NamePath& where) {
  if (!options_.on) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto found = walk(where);
  // The find() that follows counts the miss.
  if (!found) return std::nullopt;
  if (found->nothing) {
    ++counters_.hits;
    return Result<Attributes>(Errc::kNotFound);
  }
  Attributes attributes = found->object->reply->attributes;
  if (!attributes.size_known) {
    const wire::DataSummary* const data = found->object->written_data();
    if (data == nullptr) return std::nullopt;
    complete(attributes, *data);
  }
  ++counters_.hits;
  return Result<Attributes>(attributes);
}

void AttributeCache::begin_writing(Handle file) {
  const std::lock_guard lock(mutex_);
  CachedObject* const object = objects_.find(file);
  if (object != nullptr && object->writing) ++object->writing->under_way;
}

void AttributeCache::end_writing(Handle file, const std::optional<wire::DataSummary>& data) {
  const std::lock_guard lock(mutex_);
  CachedObject* const object = objects_.find(file);
  if (object == nullptr || !object->writing) return;
  --object->writing->under_way;
  object->writing->data = data;
  if (object->mtime_set && object->reply && data) object->reply->attributes.change_sum = data->change_sum;
}

bool AttributeCache::writes_alone(Handle file) const {
  const std::lock_guard lock(mutex_);
  const CachedObject* const object = objects_.find(file);
  return object != nullptr && object->writing && objects_.in_force(file, clock_.now());
}

bool AttributeCache::gather(Handle file, std::uint64_t end, WallTime now) {
  if (!options_.on) return false;
  const std::lock_guard lock(mutex_);
  const MonoTime time = clock_.now();
  if (all_blocked(time)) return false;
  CachedObject* const object = objects_.use(file, time);
  if (object == nullptr || !object->takes_gathered()) return false;
  object->note_gathered(end, now);
  return true;
}

std::optional<AttributeCache::KnownSize> AttributeCache::known_size(Handle file) {
  if (!options_.on) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto found = walk({file, {}, 0});
  if (!found || found->nothing || !found->object->reply->attributes.size_known) return std::nullopt;
  const Attributes& attributes = found->object->reply->attributes;
  return KnownSize{attributes.size, attributes.ctime};
}

/// How long a copy may be used after its answer. A tenth of the lease is reserved for the time that the answer takes to
/// reach the holder of the copy.
Duration AttributeCache::copy_time(const CachedObject& object, MonoTime now) const {
  const Duration left = objects_.end_of(object) - now - lease_ / 10;
  return left < kLeastCopyTime ? Duration(0) : left;
}

std::optional<AttributeCache::Copy> AttributeCache::copy_attributes(Handle object) {
  if (!options_.on || !copies_.possible()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto found = walk({object, {}, 0});
  if (!found || found->nothing) return std::nullopt;
  Attributes attributes = found->object->reply->attributes;
  if (!attributes.size_known) {
    const wire::DataSummary* const data = copies_.brief() ? found->object->written_data() : nullptr;
    if (data == nullptr) return std::nullopt;
    complete(attributes, *data);
  }
  const MonoTime now = clock_.now();
  const Duration good_for = copy_time(*found->object, now);
  if (good_for == Duration(0)) return std::nullopt;
  if (!copies_.export_attributes(object, now + good_for + lease_ / 5)) return std::nullopt;
  ++counters_.hits;
  ++counters_.copied;
  return Copy{attributes, good_for};
}

Duration AttributeCache::copy_name(Handle directory, std::string_view name, Handle object) {
  const Copies::Names copied = copies_.takes_names();
  if (!options_.on || copied == Copies::Names::kOfNone) return Duration(0);
  const std::lock_guard lock(mutex_);
  const MonoTime now = clock_.now();
  if (all_blocked(now) || changes_.touch(directory, name)) return Duration(0);
  CachedObject* const at = objects_.use(directory, now);
  if (at == nullptr || (copied == Copies::Names::kOfDelegated && !at->delegated)) return Duration(0);
  const auto known = at->names.find(name);
  const bool told = known != at->names.end();
  if (told ? known->second.object != object : object || !at->complete || !may_be_a_name(name)) return Duration(0);
  const Duration good_for = copy_time(*at, now);
  if (good_for == Duration(0)) return Duration(0);
  copies_.export_name(at->name_copies, objects_.end_of(*at));
  ++counters_.copied;
  return good_for;
}

void AttributeCache::drop_copied_names() {
  const std::lock_guard lock(mutex_);
  copies_.drop_names();
}

AttributeCache::Lookup AttributeCache::begin_lookup() {
  const std::lock_guard lock(mutex_);
  ++looking_;
  return {clock_.now(), events_.count()};
}

void AttributeCache::meet_table(std::uint64_t table, std::uint32_t lease_ms) {
  if (table_ != 0 && table_ != table) drop_all();
  table_ = table;
  lease_ = std::chrono::milliseconds(lease_ms);
}

void AttributeCache::end_lookup(const Lookup& lookup, const wire::LookupLeaseReply* reply) {
  const std::lock_guard lock(mutex_);
  if (reply != nullptr && reply->granted) {
    meet_table(reply->table, reply->lease_ms);
    if (!recalled_since(events_, lookup.events_before, *reply)) keep(*reply, lookup.asked + usable());
    listing_credit_.used();  // a listing might have brought it
  }
  --looking_;
  forget_events();
}

void AttributeCache::keep(const wire::LookupLeaseReply& reply, MonoTime until) {
  for (const wire::LeaseStep& step : reply.steps) {
    CachedObject& directory = objects_.renewed(step.directory, until);
    const auto known = directory.names.find(step.name);
    const bool other = known != directory.names.end() && known->second.object != step.object;
    if (other) copies_.drop_names_of(directory.name_copies);
    objects_.put_name(directory, step);
  }
  if (reply.object) {
    CachedObject& object = objects_.renewed(reply.object->attributes.handle, until);
    object.reply = *reply.object;
    object.order = 0;
    object.listed = false;
  }
  objects_.make_room();
}

void AttributeCache::drop_all() {
  objects_.drop_all();
  events_.note_all();
}

/// Whether own changes may touch any object. They may if the cache does not know which objects a change touches, or has
/// lost the names that identified them.
bool AttributeCache::all_blocked(MonoTime now) const {
  return changes_.touch_anything([&](Handle directory) { return objects_.in_force(directory, now); });
}

void AttributeCache::note(Handle object, std::uint64_t order) {
  events_.note(object, order, looking_ != 0 || !changes_.empty());
}

void AttributeCache::forget_events() {
  if (looking_ == 0 && changes_.empty()) events_.clear();
}

void AttributeCache::recalled(Handle object) {
  const std::lock_guard lock(mutex_);
  ++counters_.recalls;
  objects_.drop(object);
  note(object, 0);
}

void AttributeCache::heard(MonoTime asked, std::uint64_t table, bool complete) {
  const std::lock_guard lock(mutex_);
  if (table_ == 0) return;
  if (table != table_) {  // the server has forgotten all leases
    drop_all();
    table_ = 0;
    return;
  }
  // After a lease has expired, the attributes may have changed, because the server no longer waits for this client.
  objects_.expire(clock_.now());
  if (complete) objects_.renew_all(asked + usable());
}

void AttributeCache::server_is(std::uint64_t table) {
  const std::lock_guard lock(mutex_);
  if (table_ == table) return;
  drop_all();
  table_ = table;
}

void AttributeCache::clear() {
  const std::lock_guard lock(mutex_);
  drop_all();
  table_ = 0;
}

bool AttributeCache::wants_events() const {
  if (!options_.on) return false;
  const std::lock_guard lock(mutex_);
  return !objects_.empty();
}

bool AttributeCache::has_lease(Handle object) const {
  const std::lock_guard lock(mutex_);
  return objects_.in_force(object, clock_.now());
}

Duration AttributeCache::longest_silence() const {
  const std::lock_guard lock(mutex_);
  return lease_ / 4;
}

AttributeCache::Counters AttributeCache::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

}  // namespace spate::client
