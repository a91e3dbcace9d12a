// SPDX-License-Identifier: Apache-2.0
// The effect of the changes on the kept attributes is that of the server's own code: names/setattr.cc,
// session/close.cc.
#include "client/attributes/local_answers.h"

#include <algorithm>

namespace spate::client {
namespace {

constexpr std::uint32_t kLending = 06000;  // setuid and setgid
constexpr std::uint32_t kSticky = 01000;
constexpr std::uint32_t kOwnerRead = 0400;

bool sets_mtime(const wire::SetattrRequest& request) { return request.mtime || request.mtime_now; }

/// Whether the server must decide, or more than the object is needed.
bool for_the_server(const Credential& who, const Attributes& now, const wire::SetattrRequest& request) {
  if (request.btime || (who.uid != 0 && who.uid != now.uid)) return true;
  if ((request.atime && request.atime_now) || (request.mtime && request.mtime_now)) return true;
  if ((now.mode & kLending) != 0) return true;
  if (request.mode && ((*request.mode & ~01777U) != 0 || now.type == FileType::kSymlink)) return true;
  const bool moves = (request.uid && *request.uid != now.uid) || (request.gid && *request.gid != now.gid);
  return moves && who.uid != 0;
}

/// Whether this client knows the state of the datafiles as the last open for writing leaves them. `data`: what the open
/// knows of it.
bool knows(const CachedObject& object, const std::optional<wire::DataSummary>& data) {
  const wire::DataSummary* const known = object.written_data();
  return data && known != nullptr && known->change_sum == data->change_sum && known->size == data->size;
}

/// The last open for writing is closed.
void end_writing(CachedObject& object, const wire::DataSummary& data) {
  Attributes& a = object.reply->attributes;
  complete(a, data);
  a.size_known = true;
  ++a.version;
  object.writing.reset();
}

}  // namespace

void LocalAnswers::touch(Attributes& attributes, WallTime now) {
  attributes.ctime = now;
  ++attributes.version;
}

/// The object under a delegation, if nothing else changes it now. Call it with the lock held.
CachedObject* LocalAnswers::delegated(Handle object) {
  if (!cache_.options_.on) return nullptr;
  const MonoTime now = cache_.clock_.now();
  if (cache_.all_blocked(now)) return nullptr;
  CachedObject* const found = cache_.objects_.use(object, now);
  const bool changes = cache_.changes_.touch(object) || cache_.changes_.touch_entries_of(object);
  const bool usable = found != nullptr && found->delegated && found->reply && !changes;
  if (!usable || found->reply->attributes.type == FileType::kDirectory) return usable ? found : nullptr;
  // Any other object is protected by the directory in which it was made.
  const CachedObject* const directory = cache_.objects_.find(found->made_in);
  const bool safe = directory != nullptr && directory->delegated && cache_.objects_.in_force(found->made_in, now);
  return safe ? found : nullptr;
}

std::optional<Result<Attributes>> LocalAnswers::set(wire::SetattrRequest request, std::uint64_t request_id) {
  if (!request.where.path.empty()) return std::nullopt;
  const std::lock_guard lock(cache_.mutex_);
  CachedObject* const object = delegated(request.where.start);
  return object == nullptr ? std::nullopt : set_now(*object, std::move(request), request_id);
}

/// The holder of copies does not learn the new mode from the answer to such a call.
std::optional<Result<Attributes>> LocalAnswers::set_permissions(Handle handle, std::optional<std::uint32_t> permissions,
                                                                std::uint64_t request_id) {
  const std::lock_guard lock(cache_.mutex_);
  CachedObject* const object = delegated(handle);
  if (object == nullptr || !object->plain) return std::nullopt;
  wire::SetattrRequest request;
  request.where.start = handle;
  const std::uint32_t mode = object->reply->attributes.mode;
  request.mode = permissions ? (mode & ~0777U) | *permissions : mode;
  auto set = set_now(*object, request, request_id);
  if (set) cache_.copies_.drop_attributes(handle);
  return set;
}

std::optional<Result<Attributes>> LocalAnswers::set_now(CachedObject& object, wire::SetattrRequest request,
                                                        std::uint64_t request_id) {
  if (for_the_server(log_.credential(), object.reply->attributes, request)) return std::nullopt;
  Attributes a = object.reply->attributes;
  const bool writing = a.type == FileType::kRegular && !a.size_known;
  if (writing) {
    const wire::DataSummary* const data = object.written_data();
    if (data == nullptr) return std::nullopt;
    if (data->change_sum != 0) return set_later(object, request);
    if (sets_mtime(request)) request.data = *data;
  }
  const WallTime at = log_.time(a.ctime);
  if (!log_.add({wire::Op::kSetattr, a.handle, false, Handle(), at, encoded(request), request_id})) return std::nullopt;
  a.uid = request.uid.value_or(a.uid);
  a.gid = request.gid.value_or(a.gid);
  a.mode = request.mode.value_or(a.mode);
  if (request.atime_now) a.atime = at;
  if (request.mtime_now) a.mtime = at;
  a.atime = request.atime.value_or(a.atime);
  a.mtime = request.mtime.value_or(a.mtime);
  touch(a, at);
  object.reply->attributes = a;
  object.queued = true;
  if (a.type == FileType::kDirectory && (a.mode & (kLending | kSticky)) != 0) object.delegated = false;
  cache_.note(a.handle, RecentEvents::kLocal);
  ++cache_.counters_.local;
  return Result<Attributes>(a);
}

/// The servers have, or will have, data of the file.
std::optional<Result<Attributes>> LocalAnswers::set_later(CachedObject& object, const wire::SetattrRequest& request) {
  Attributes a = object.reply->attributes;
  if (request.uid.value_or(a.uid) != a.uid || request.gid.value_or(a.gid) != a.gid) return std::nullopt;
  ChangesAfterData::Later later;
  later.at = log_.time(a.ctime);
  later.mode = request.mode;
  later.atime = request.atime_now ? later.at : request.atime;
  later.mtime = request.mtime_now ? later.at : request.mtime;
  if (!later.mode && !later.mtime) later.mode = a.mode;  // an atime alone would be that of a read
  if (!after_data_.set(a.handle, later)) return std::nullopt;
  a.mode = later.mode.value_or(a.mode);
  a.atime = later.atime.value_or(a.atime);
  a.mtime = later.mtime.value_or(a.mtime);
  if (later.mtime) {
    a.change_sum = object.written_data()->change_sum;
    object.mtime_set = true;
  }
  touch(a, later.at);
  object.reply->attributes = a;
  object.queued = true;
  cache_.note(a.handle, RecentEvents::kLocal);
  ++cache_.counters_.local;
  Attributes told = a;
  complete(told, *object.written_data());
  return Result<Attributes>(told);
}

bool LocalAnswers::write(Handle file, std::uint64_t end, const std::function<bool(WallTime)>& keep) {
  const std::lock_guard lock(cache_.mutex_);
  CachedObject* const object = delegated(file);
  if (object == nullptr || !object->takes_gathered()) return false;
  const WallTime now = log_.time(WallTime());
  if (!keep(now)) return false;
  object->note_gathered(end, now);
  return true;
}

bool LocalAnswers::has_no_xattrs(Handle handle) {
  const std::lock_guard lock(cache_.mutex_);
  const CachedObject* const object = delegated(handle);
  return object != nullptr && object->plain;
}

bool LocalAnswers::may_open(const CachedObject& object) const {
  const Attributes& a = object.reply->attributes;
  const Credential& who = log_.credential();
  const bool may_read = who.uid == 0 || (who.uid == a.uid && (a.mode & kOwnerRead) != 0);
  const bool is_made = object.reply->layout.has_value();  // at the server
  return a.type == FileType::kRegular && is_made && a.size_known && may_read && log_.takes_removals();
}

bool LocalAnswers::may_open(Handle file) {
  const std::lock_guard lock(cache_.mutex_);
  const CachedObject* const object = delegated(file);
  return object != nullptr && may_open(*object);
}

std::optional<Attributes> LocalAnswers::open(Handle file, std::uint64_t request_id) {
  const std::lock_guard lock(cache_.mutex_);
  CachedObject* const object = delegated(file);
  if (object == nullptr || !may_open(*object)) return std::nullopt;
  const Attributes& a = object->reply->attributes;
  wire::OpenRequest request;
  request.where.start = file;
  request.open_flags = wire::kOpenRead;
  if (!log_.add({wire::Op::kOpen, file, false, Handle(), log_.time(a.ctime), encoded(request), request_id}))
    return std::nullopt;
  ++cache_.counters_.local;
  return a;
}

std::optional<Attributes> LocalAnswers::close(const wire::CloseRequest& request, std::uint64_t request_id) {
  const std::lock_guard lock(cache_.mutex_);
  CachedObject* const object = delegated(request.handle);
  if (object == nullptr || request.mtime || request.mode) return std::nullopt;
  Attributes& a = object->reply->attributes;
  const bool wrote = allows(request.rights, Rights::kWrite);
  if (a.type != FileType::kRegular) return std::nullopt;
  if (wrote && !knows(*object, request.data)) {
    if (!after_data_.close(request.handle)) return std::nullopt;
    ++cache_.counters_.local;
    return a;
  }
  const WallTime at = log_.time(a.ctime);
  if (!log_.add({wire::Op::kClose, request.handle, false, Handle(), at, encoded(request), request_id}))
    return std::nullopt;
  if (wrote) end_writing(*object, *request.data);
  const bool read = request.atime && allows(request.rights, Rights::kRead) && std::min(*request.atime, at) > a.atime;
  if (read) {
    a.atime = std::min(*request.atime, at);
    cache_.copies_.drop_attributes(request.handle);
  }
  if (wrote || read) {
    object->queued = true;
    cache_.note(request.handle, RecentEvents::kLocal);
  }
  ++cache_.counters_.local;
  return a;
}

/// Times that were set win over those of the data: the summary of the data goes along.
bool LocalAnswers::add_later(Handle handle, const std::optional<wire::DataSummary>& data) {
  const std::lock_guard lock(cache_.mutex_);
  const auto file = after_data_.find(handle);
  if (!file) return true;
  const bool changes = file->set || file->closed;
  if (changes) {
    AfterData change = after_data(handle, *file, data);
    const WallTime at = file->set ? file->later.at : log_.time(WallTime());
    if (!log_.add({change.op, handle, false, Handle(), at, std::move(change.body), 0, true})) return false;
  }
  after_data_.end(handle);
  CachedObject* const object = cache_.objects_.find(handle);
  if (object == nullptr || !object->reply) return true;
  object->mtime_set = false;
  cache_.note(handle, RecentEvents::kLocal);
  if (!data) {
    cache_.objects_.drop(handle);
    return true;
  }
  if (changes) object->queued = true;
  if (!file->closed) return true;
  end_writing(*object, *data);
  return true;
}

/// An object that was dropped meanwhile, as by a recall, does not come back: `queued` tells that the object is the one
/// that was changed locally.
void LocalAnswers::keep(const Answered& answer, const wire::GrantedObject& granted, std::uint64_t order) {
  const Handle handle = granted.object.attributes.handle;
  CachedObject* const object = cache_.objects_.find(handle);
  if (object == nullptr || !object->queued || !object->reply) return;
  CachedObject& kept = cache_.objects_.renewed(handle, answer.asked + cache_.usable());
  if (!kept.reply) return;  // its lease had run out
  if (log_.changed_after(handle, answer.last) || after_data_.has(handle)) {
    kept.reply->layout = granted.object.layout;
    return;
  }
  kept.reply = granted.object;
  kept.order = order;
  kept.queued = false;
}

void LocalAnswers::end(const Answered& answer, const wire::Touched& touched, const wire::Granted& granted) {
  const std::lock_guard lock(cache_.mutex_);
  if (!touched.known || !granted.granted) return cache_.drop_all();
  cache_.meet_table(granted.table, granted.lease_ms);
  for (const Handle object : touched.objects) {
    const auto is_it = [object](const wire::GrantedObject& one) { return one.object.attributes.handle == object; };
    const auto found = std::find_if(granted.objects.begin(), granted.objects.end(), is_it);
    if (found != granted.objects.end()) {
      keep(answer, *found, granted.order);
    } else {
      cache_.objects_.drop(object);
      cache_.note(object, 0);
    }
    CachedObject* const kept = cache_.objects_.find(object);
    const bool made = answer.made_directories.contains(object);
    const bool goes_on = found != granted.objects.end() && (found->flags & wire::GrantedObject::kDelegated) != 0;
    if (kept != nullptr && made && !goes_on) kept->delegated = false;
  }
}

void LocalAnswers::forget(Handle object) {
  const std::lock_guard lock(cache_.mutex_);
  cache_.objects_.drop(object);
  cache_.note(object, 0);
}

}  // namespace spate::client
