// SPDX-License-Identifier: Apache-2.0
#include "client/attributes/attribute_cache.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace spate::client {
namespace {

template <typename T>
bool contains(const std::vector<T>& all, const T& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

std::string_view next_component(std::string_view& path) {
  const std::size_t begin = path.find_first_not_of('/');
  if (begin == std::string_view::npos) return path = {};
  path.remove_prefix(begin);
  const std::string_view component = path.substr(0, path.find('/'));
  path.remove_prefix(component.size());
  return component;
}

/// Others are errors of their own kinds.
bool may_be_a_name(std::string_view component) {
  return component.size() <= kMaxNameBytes && component.find('\0') == std::string_view::npos;
}

/// Less than that is not worth it to who keeps a copy.
constexpr Duration kLeastCopyTime = std::chrono::milliseconds(10);

}  // namespace

AttributeCache::AttributeCache(Options options, const Clock& clock)
    : options_(options), clock_(clock), listing_credit_(kMostListingCredit) {
  SPATE_CHECK(options.most >= 16);
}

/// Clocks of two machines do not run at quite the same speed.
Duration AttributeCache::usable() const { return lease_ - lease_ / 10; }

AttributeCache::Object* AttributeCache::valid(Handle handle, MonoTime now) {
  const auto found = objects_.find(handle);
  if (found == objects_.end() || std::max(found->second.until, until_) <= now || blocked(handle)) return nullptr;
  used_.splice(used_.end(), used_, found->second.place);
  return &found->second;
}

/// Nothing: the server must be asked. Links and dots are the server's work.
std::optional<AttributeCache::Found> AttributeCache::walk(const wire::NamePath& where) {
  if (!options_.on) return std::nullopt;
  const MonoTime now = clock_.now();
  if (all_blocked(now)) return std::nullopt;
  Handle here = where.start;
  Object* at = valid(here, now);
  if (at == nullptr) return std::nullopt;
  std::string_view rest = where.path;
  while (!rest.empty()) {
    const std::string_view component = next_component(rest);
    if (component.empty() || component == "." || component == "..") return std::nullopt;
    if (blocked(here, component)) return std::nullopt;
    const auto name = at->names.find(component);
    const bool known = name != at->names.end();
    if (!known && !(at->complete && may_be_a_name(component))) return std::nullopt;
    if (!known || !name->second.object) return Found{nullptr, true};
    const bool last = rest.empty();
    const bool link = name->second.type == FileType::kSymlink;
    if (last ? link && (where.flags & wire::NamePath::kFollowLast) != 0 : name->second.type != FileType::kDirectory)
      return std::nullopt;
    here = name->second.object;
    at = valid(here, now);
    if (at == nullptr) return std::nullopt;
  }
  const auto changes_entries = [here](const Change& change) { return contains(change.directories, here); };
  if (!at->reply || std::any_of(changes_.begin(), changes_.end(), changes_entries)) return std::nullopt;
  if (std::exchange(at->listed, false)) earn(kListingCreditOfAUse);
  return Found{at, false};
}

std::optional<Result<wire::ObjectReply>> AttributeCache::find(const wire::NamePath& where) {
  const std::lock_guard lock(mutex_);
  const auto found = walk(where);
  ++(found ? counters_.hits : counters_.misses);
  if (!found) return std::nullopt;
  if (found->nothing) return Result<wire::ObjectReply>(Errc::kNotFound);
  return Result<wire::ObjectReply>(*found->object->reply);
}

std::optional<Result<Attributes>> AttributeCache::find_attributes(const wire::NamePath& where) {
  if (!options_.on) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto found = walk(where);
  // Misses are counted by the find() that follows.
  if (!found) return std::nullopt;
  if (!found->nothing && !found->object->reply->attributes.size_known) return std::nullopt;
  ++counters_.hits;
  if (found->nothing) return Result<Attributes>(Errc::kNotFound);
  return Result<Attributes>(found->object->reply->attributes);
}

std::optional<AttributeCache::KnownSize> AttributeCache::known_size(Handle file) {
  if (!options_.on) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto found = walk({file, {}, 0});
  if (!found || found->nothing || !found->object->reply->attributes.size_known) return std::nullopt;
  const Attributes& attributes = found->object->reply->attributes;
  return KnownSize{attributes.size, attributes.ctime};
}

/// The time of a copy begins when the answer has come to who keeps it: a tenth of the lease is for the way.
Duration AttributeCache::copy_time(const Object& object, MonoTime now) const {
  const Duration left = end_of(object) - now - lease_ / 10;
  return left < kLeastCopyTime ? Duration(0) : left;
}

std::optional<AttributeCache::Copy> AttributeCache::copy_attributes(Handle object) {
  if (!options_.on || options_.copies == nullptr) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto found = walk({object, {}, 0});
  if (!found || found->nothing || !found->object->reply->attributes.size_known) return std::nullopt;
  const MonoTime now = clock_.now();
  const Duration good_for = copy_time(*found->object, now);
  if (good_for == Duration(0)) return std::nullopt;
  if (!options_.copies->begin_attributes(object, now + good_for + lease_ / 5)) return std::nullopt;
  copied_.insert(object);
  ++counters_.hits;
  ++counters_.copied;
  return Copy{found->object->reply->attributes, good_for};
}

Duration AttributeCache::copy_name(Handle directory, std::string_view name, Handle object) {
  if (!options_.on || options_.copies == nullptr || !options_.copies->takes_names()) return Duration(0);
  const std::lock_guard lock(mutex_);
  const MonoTime now = clock_.now();
  if (all_blocked(now) || blocked(directory, name)) return Duration(0);
  Object* const at = valid(directory, now);
  if (at == nullptr) return Duration(0);
  const auto known = at->names.find(name);
  const bool told = known != at->names.end();
  if (told ? known->second.object != object : object || !at->complete || !may_be_a_name(name)) return Duration(0);
  const Duration good_for = copy_time(*at, now);
  if (good_for == Duration(0)) return Duration(0);
  note_name_copy(*at, end_of(*at));
  ++counters_.copied;
  return good_for;
}

void AttributeCache::note_name_copy(Object& directory, MonoTime until) {
  const bool others = directory.names_copied == names_epoch_;
  directory.names_copied_until = others ? std::max(directory.names_copied_until, until) : until;
  directory.names_copied = last_name_copy_ = names_epoch_;
}

void AttributeCache::drop_copy(Handle object) {
  if (copied_.erase(object) > 0) options_.copies->drop_attributes(object);
}

void AttributeCache::drop_all_attribute_copies() {
  for (const Handle object : copied_) options_.copies->drop_attributes(object);
  copied_.clear();
}

/// Of all names: those of one directory cannot be taken back without waiting for who is changing it.
void AttributeCache::drop_name_copies() {
  if (last_name_copy_ != names_epoch_) return;
  ++names_epoch_;
  options_.copies->drop_names();
}

void AttributeCache::drop_copied_names() {
  const std::lock_guard lock(mutex_);
  drop_name_copies();
}

AttributeCache::Lookup AttributeCache::begin_lookup() {
  const std::lock_guard lock(mutex_);
  ++looking_;
  return {clock_.now(), events_count_};
}

bool AttributeCache::recalled_since(const Lookup& lookup, const wire::LookupLeaseReply& reply) const {
  if (lookup.news < forgotten_) return true;
  return std::any_of(events_.begin(), events_.end(), [&](const Event& event) {
    if (event.news <= lookup.news) return false;
    if (reply.object && reply.object->attributes.handle == event.object) return true;
    return std::any_of(reply.steps.begin(), reply.steps.end(),
                       [&](const wire::LeaseStep& step) { return step.directory == event.object; });
  });
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
    if (!recalled_since(lookup, *reply)) keep(*reply, lookup.asked + usable());
    earn(kListingCreditOfAUse);  // a listing might have brought it
  }
  --looking_;
  forget_events();
}

AttributeCache::Object& AttributeCache::make(Handle handle) {
  auto [at, fresh] = objects_.try_emplace(handle);
  if (fresh) {
    at->second.place = used_.insert(used_.end(), handle);
  } else {
    used_.splice(used_.end(), used_, at->second.place);
  }
  return at->second;
}

/// What is kept of it from now on, under a lease that was asked for.
AttributeCache::Object& AttributeCache::renewed(Handle handle, MonoTime until) {
  Object& object = make(handle);
  // What was kept under a lease that had run out may have been changed since.
  if (std::max(object.until, until_) <= clock_.now()) {
    forget_names(handle, object);
    drop_copy(handle);
    object.reply.reset();
    object.listed = false;
  }
  object.until = std::max(object.until, until);
  return object;
}

void AttributeCache::forget_names(Handle handle, Object& directory) {
  names_lost(handle);
  if (directory.names_copied == names_epoch_) drop_name_copies();
  names_ -= directory.names.size();
  directory.names.clear();
  directory.complete = false;
}

void AttributeCache::put_name(Object& directory, const wire::LeaseStep& step) {
  const auto [at, fresh] = directory.names.try_emplace(step.name, Name{step.object, step.type});
  if (fresh) {
    ++names_;
  } else if (at->second.object != step.object) {
    name_lost(step.directory, step.name);
    at->second = Name{step.object, step.type};
  }
}

void AttributeCache::keep(const wire::LookupLeaseReply& reply, MonoTime until) {
  for (const wire::LeaseStep& step : reply.steps) {
    Object& directory = renewed(step.directory, until);
    const auto known = directory.names.find(step.name);
    const bool other = known != directory.names.end() && known->second.object != step.object;
    if (other && directory.names_copied == names_epoch_) drop_name_copies();
    put_name(directory, step);
  }
  if (reply.object) {
    Object& object = renewed(reply.object->attributes.handle, until);
    object.reply = *reply.object;
    object.order = 0;
    object.listed = false;
  }
  make_room();
}

void AttributeCache::make_room() {
  while (objects_.size() + names_ > options_.most && !used_.empty()) drop(used_.front());
}

void AttributeCache::drop(Handle handle) {
  const auto found = objects_.find(handle);
  if (found == objects_.end()) return;
  names_lost(handle);
  drop_copy(handle);
  if (found->second.names_copied == names_epoch_) drop_name_copies();
  names_ -= found->second.names.size();
  used_.erase(found->second.place);
  objects_.erase(found);
}

void AttributeCache::drop_name(const wire::TouchedName& name) {
  const auto found = objects_.find(name.directory);
  name_lost(name.directory, name.name);
  if (found == objects_.end()) return;
  found->second.complete = false;
  names_ -= found->second.names.erase(name.name);
}

void AttributeCache::drop_all() {
  for (Change& change : changes_) change.all = change.all || !change.trusted.empty();
  drop_all_attribute_copies();
  drop_name_copies();
  objects_.clear();
  used_.clear();
  names_ = 0;
  until_ = MonoTime();
  forgotten_ = ++events_count_;
}

void AttributeCache::heard(MonoTime asked, std::uint64_t table, bool complete) {
  const std::lock_guard lock(mutex_);
  if (table_ == 0) return;
  if (table != table_) {  // the server has forgotten everything
    drop_all();
    table_ = 0;
    return;
  }
  // What has run out meanwhile may have been changed: the server waits for nobody so long.
  const MonoTime now = clock_.now();
  if (until_ <= now) {
    for (auto at = used_.begin(); at != used_.end();) {
      const Handle handle = *at++;
      if (objects_.at(handle).until <= now) drop(handle);
    }
  }
  if (complete) until_ = std::max(until_, asked + usable());
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

Duration AttributeCache::longest_silence() const {
  const std::lock_guard lock(mutex_);
  return lease_ / 4;
}

AttributeCache::Counters AttributeCache::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

}  // namespace spate::client
