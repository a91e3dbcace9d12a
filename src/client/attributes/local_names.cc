// SPDX-License-Identifier: Apache-2.0
// Names in delegated directories. The effect of a change on the kept attributes is that of the server's own code:
// names/create.cc, mkdir.cc, rmdir.cc.
#include <algorithm>

#include "base/checksum.h"
#include "client/attributes/local_answers.h"

namespace spate::client {
namespace {

constexpr std::uint32_t kSpecialBits = 07000;  // setuid, setgid and sticky
constexpr std::uint32_t kOwnerWriteExecute = 0300;

bool is_new_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

bool is_target(std::string_view target) {
  return !target.empty() && target.size() <= kMaxSymlinkBytes && target.find('\0') == std::string_view::npos;
}

/// Whether the session may add an entry. A directory is delegated only if it has no list.
bool may_add(const Credential& who, const Attributes& directory) {
  if (who.uid == 0) return true;
  return who.uid == directory.uid && (directory.mode & kOwnerWriteExecute) == kOwnerWriteExecute;
}

/// The attributes that the server gives a new object. Nothing: the server must decide.
std::optional<Attributes> attributes_of(const LocalAnswers::NewObject& made, const Credential& who,
                                        const Attributes& directory) {
  const wire::NewAttributes& asked = made.attributes;
  const std::uint32_t umask = (asked.mode >> wire::NewAttributes::kUmaskShift) & 0777U;
  const std::uint32_t mode =
      asked.mode & ~(wire::NewAttributes::kOnBehalf | (umask << wire::NewAttributes::kUmaskShift));
  if (mode > 07777 || (mode & kSpecialBits) != 0 || (directory.mode & kSpecialBits) != 0) return std::nullopt;
  if (who.uid != 0 && (asked.uid.value_or(who.uid) != who.uid || asked.gid.value_or(who.gid) != who.gid))
    return std::nullopt;
  Attributes a;
  a.type = made.type;
  a.mode = made.type == FileType::kSymlink ? 0777 : mode & ~umask;
  a.uid = asked.uid.value_or(who.uid);
  a.gid = asked.gid.value_or(who.gid);
  a.project = directory.project;
  a.version = 1;
  if (made.type == FileType::kDirectory) a.link_count = 2;
  if (made.type == FileType::kSymlink) a.size = made.target.size();
  if ((made.open_flags & wire::kOpenWrite) != 0) a.size_known = false;
  return a;
}

/// Whether the server would remove the object now, and nothing but the queue knows of it.
bool is_removable(const CachedObject& object, wire::Op op) {
  const Attributes& a = object.reply->attributes;
  if (op == wire::Op::kRmdir) return a.type == FileType::kDirectory && object.complete && a.size == 0;
  return a.type != FileType::kDirectory && a.link_count == 1 && a.size_known;
}

}  // namespace

std::uint64_t local_cookie(std::string_view name) {
  constexpr std::uint64_t kReserved = 3;  // for the beginning, "." and ".."
  return kReserved + hash64(as_bytes(name)) % (kLocalCookies - kReserved);
}

std::optional<Result<Attributes>> LocalAnswers::make(const NewObject& made, std::uint64_t request_id) {
  const std::lock_guard lock(cache_.mutex_);
  if (made.type == FileType::kSymlink && !is_target(made.target)) return std::nullopt;
  CachedObject* const directory = delegated(made.where.start);
  const std::string& name = made.where.path;
  if (directory == nullptr || !directory->complete || !is_new_name(name)) return std::nullopt;
  if (cache_.changes_.touch(made.where.start, name) || directory->names.contains(name)) return std::nullopt;
  Attributes& parent = directory->reply->attributes;
  if (!may_add(log_.credential(), parent)) return std::nullopt;
  auto attributes = attributes_of(made, log_.credential(), parent);
  if (!attributes) return std::nullopt;
  attributes->handle = log_.take_handle();
  if (!attributes->handle) return std::nullopt;
  const WallTime at = log_.time(parent.mtime);
  attributes->ctime = attributes->btime = at;
  attributes->atime = made.attributes.atime.value_or(at);
  attributes->mtime = made.attributes.mtime.value_or(at);
  if (!log_.add(
          {creation_op(made.type), attributes->handle, true, made.where.start, at, creation_of(made), request_id}))
    return std::nullopt;
  touch(parent, at);
  parent.mtime = at;
  ++parent.size;
  if (made.type == FileType::kDirectory) ++parent.link_count;
  directory->queued = true;
  cache_.note(made.where.start, RecentEvents::kLocal);
  CachedObject& object = cache_.objects_.renewed(attributes->handle, directory->until);
  object.reply = wire::ObjectReply{*attributes, std::nullopt, made.target};
  object.delegated = object.queued = object.plain = true;
  object.made_in = made.where.start;
  object.complete = made.type == FileType::kDirectory;
  if (!attributes->size_known) object.writing = SoleWriterState{0, wire::DataSummary()};
  cache_.objects_.put_name(*directory, {made.where.start, name, attributes->handle, made.type});
  cache_.objects_.make_room();
  ++cache_.counters_.local;
  return Result<Attributes>(*attributes);
}

std::optional<Result<void>> LocalAnswers::remove(const wire::NamePath& where, wire::Op op, std::uint64_t request_id) {
  const std::lock_guard lock(cache_.mutex_);
  CachedObject* const directory = delegated(where.start);
  const std::string& name = where.path;
  if (directory == nullptr || !is_new_name(name) || !log_.takes_removals() || after_data_.any()) return std::nullopt;
  const auto found = directory->names.find(name);
  if (found == directory->names.end() || cache_.changes_.touch(where.start, name)) return std::nullopt;
  const Handle handle = found->second.object;
  CachedObject* const object = delegated(handle);
  Attributes& parent = directory->reply->attributes;
  if (object == nullptr || !is_removable(*object, op) || !may_add(log_.credential(), parent)) return std::nullopt;
  const WallTime at = log_.time(parent.mtime);
  if (!log_.add({op, handle, false, where.start, at, removal_of(where, op), request_id})) return std::nullopt;
  touch(parent, at);
  parent.mtime = at;
  --parent.size;
  if (op == wire::Op::kRmdir) --parent.link_count;
  directory->queued = true;
  cache_.note(where.start, RecentEvents::kLocal);
  cache_.objects_.forget_name(*directory, {where.start, name});
  cache_.objects_.removed(handle);
  cache_.note(handle, RecentEvents::kLocal);
  ++cache_.counters_.local;
  return Result<void>();
}

/// The directory in which it was made is its parent unless a request has changed it.
std::optional<wire::ReaddirReply> LocalAnswers::list(Handle handle) {
  wire::ReaddirReply all;
  all.end = true;
  {
    const std::lock_guard lock(cache_.mutex_);
    const CachedObject* const directory = delegated(handle);
    const bool known = directory != nullptr && directory->complete && directory->plain &&
                       directory->reply->attributes.type == FileType::kDirectory;
    if (!known || directory->names.size() > kMostListed) return std::nullopt;
    all.parent = directory->made_in;
    all.entries.reserve(directory->names.size());
    for (const auto& [name, found] : directory->names) {
      if (!found.object) continue;
      wire::DirectoryEntry& entry = all.entries.emplace_back();
      entry.name = name;
      entry.cookie = local_cookie(name);
      entry.handle = found.object;
      entry.type = found.type;
    }
    ++cache_.counters_.local;
  }
  const auto before = [](const auto& a, const auto& b) { return a.cookie < b.cookie; };
  std::sort(all.entries.begin(), all.entries.end(), before);
  return all;
}

}  // namespace spate::client
