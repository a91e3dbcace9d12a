// SPDX-License-Identifier: Apache-2.0
// getxattr, setxattr, listxattr, removexattr.
#include "job/range_read.h"
#include "server/meta/core/core.h"
#include "server/meta/names/objects.h"
#include "server/meta/names/operations.h"
#include "server/meta/names/xattr_names.h"
#include "server/meta/store/access.h"
#include "server/meta/store/acl.h"
#include "wire/xattr_messages.h"

namespace spate::meta {
namespace {

constexpr std::byte kVersion{1};  // first byte of a stored value
constexpr std::uint32_t kMaxCount = 512;
constexpr std::uint32_t kMaxBytes = 1U << 20U;  // limit of names and values of one object together
constexpr std::size_t kListPage = 64;

/// Only files and directories have user attributes. On a device node that everyone may write, users could fill the
/// store with them.
bool carries_user_xattrs(const InodeRecord& inode) { return inode.is_regular() || inode.is_directory(); }

Result<void> check_readable(const Credential& who, const InodeRecord& inode, XattrSpace space) {
  switch (space) {
    case XattrSpace::kLayout:
    case XattrSpace::kAcl: return {};
    case XattrSpace::kTrusted: return is_root(who) ? Result<void>() : Errc::kNoAttribute;
    case XattrSpace::kUser: break;
  }
  if (!carries_user_xattrs(inode)) return Errc::kNoAttribute;
  return may(who, inode, kWantRead) ? Result<void>() : Errc::kPermissionDenied;
}

Result<void> check_writable(const Credential& who, const InodeRecord& inode, XattrSpace space) {
  switch (space) {
    case XattrSpace::kAcl:
      if (inode.is_symlink()) return Error::told(Errc::kNotSupported, "a symbolic link has no access control list");
      return owns(who, inode.attributes) ? Result<void>() : Errc::kNotPermitted;
    case XattrSpace::kLayout: return owns(who, inode.attributes) ? Result<void>() : Errc::kNotPermitted;
    case XattrSpace::kTrusted: return is_root(who) ? Result<void>() : Errc::kNotPermitted;
    case XattrSpace::kUser: break;
  }
  if (!carries_user_xattrs(inode)) return Errc::kNotPermitted;
  const bool sticky = inode.is_directory() && (inode.attributes.mode & kSticky) != 0;
  if (sticky && !owns(who, inode.attributes)) return Errc::kNotPermitted;
  return may(who, inode, kWantWrite) ? Result<void>() : Errc::kPermissionDenied;
}

Result<Bytes> unwrap(ByteView stored) {
  if (stored.empty() || stored[0] == std::byte{0}) return Error(Errc::kCorrupt, "extended attribute");
  if (stored[0] > kVersion) return Error(Errc::kFormatTooNew, "extended attribute");
  return to_bytes(stored.subspan(1));
}

/// The stored value; nothing if there is none.
job::Task<Result<std::optional<Bytes>>> stored_value(Operation& operation, Handle handle, std::string name) {
  const auto mode = operation.kind() == Operation::Kind::kRead ? trove::ReadMode::kSnapshot : trove::ReadMode::kChecked;
  const StoreKey key = xattr_key(handle, name);
  const auto read = co_await operation.store().get(key, mode);
  if (read.status != Errc::kOk) co_return read.status;
  if (!read.value) co_return std::optional<Bytes>();
  SPATE_CO_TRY(Bytes value, unwrap(*read.value));
  co_return std::optional<Bytes>(std::move(value));
}

Result<void> check_flags(std::uint8_t flags, bool exists) {
  const bool create = (flags & wire::kXattrCreate) != 0;
  const bool replace = (flags & wire::kXattrReplace) != 0;
  if ((flags & ~(wire::kXattrCreate | wire::kXattrReplace)) != 0 || (create && replace)) {
    return Error::told(Errc::kInvalidArgument, "unknown xattr flags");
  }
  if (create && exists) return Errc::kExists;
  if (replace && !exists) return Errc::kNoAttribute;
  return {};
}

/// Adds the size of a new value and subtracts that of the value it replaces.
Result<void> account(InodeRecord& inode, std::size_t name, std::optional<std::size_t> before,
                     std::optional<std::size_t> after) {
  std::uint64_t bytes = inode.xattr_bytes;
  std::uint64_t count = inode.xattr_count;
  if (before) {
    bytes -= std::min<std::uint64_t>(bytes, name + *before);
    count -= std::min<std::uint64_t>(count, 1);
  }
  if (after) {
    bytes += name + *after;
    ++count;
    if (bytes > kMaxBytes || count > kMaxCount) return Error::told(Errc::kNoSpace, "too many extended attributes");
  }
  inode.xattr_bytes = static_cast<std::uint32_t>(bytes);
  inode.xattr_count = static_cast<std::uint32_t>(count);
  return {};
}

const Acl& acl_named(const InodeRecord& object, std::string_view name) {
  return name == kAccessAclXattr ? object.acl : object.default_acl;
}

/// An empty list removes the attribute.
Result<void> set_acl(Operation& operation, InodeRecord& object, const wire::SetxattrRequest& request) {
  SPATE_TRY(Acl acl, decode_acl(request.value));
  if (request.name == kDefaultAclXattr) {
    if (!object.is_directory() && !acl.empty())
      return Error::told(Errc::kPermissionDenied, "only directories have default lists");
    SPATE_TRY(std::ignore, check_acl(acl));
    object.default_acl = std::move(acl);
    return {};
  }
  SPATE_TRY(std::ignore, check_acl(acl));
  set_access_acl(object, std::move(acl));
  const Credential& who = operation.who();
  const bool stranger = !is_root(who) && !in_group(who, object.attributes.gid);
  const bool told = (request.flags & wire::kXattrKillSetgid) != 0;  // root acts for another user
  if (!request.value.empty() && (stranger || told)) object.attributes.mode &= ~kSetGid;
  return {};
}

void put_value(Operation& operation, Handle handle, std::string_view name, const Bytes& value) {
  Bytes stored;
  stored.reserve(1 + value.size());
  stored.push_back(kVersion);
  stored.insert(stored.end(), value.begin(), value.end());
  operation.put_raw(xattr_key(handle, name).view(), stored);
}

}  // namespace

Outcome<wire::GetxattrReply> getxattr(Operation& operation, const wire::GetxattrRequest& request) {
  SPATE_CO_TRY(std::ignore, check_xattr_length(request.name));
  // The kernel of a mount asks for the lists of the directories that it passes.
  const bool of_acl = request.name == kAccessAclXattr || request.name == kDefaultAclXattr;
  SPATE_CO_TRY(const InodeRecord object,
               co_await walk(operation, request.where, of_acl ? Reach::kOnTheWay : Reach::kInside));
  SPATE_CO_TRY(const XattrSpace space, xattr_space(request.name));
  SPATE_CO_TRY(std::ignore, check_readable(operation.who(), object, space));
  wire::GetxattrReply reply;
  if (space == XattrSpace::kLayout) {
    const auto value = layout_xattr(object, request.name);
    if (!value) co_return Errc::kNoAttribute;
    reply.value = to_bytes(as_bytes(*value));
    co_return reply;
  }
  if (space == XattrSpace::kAcl) {
    const Acl& acl = acl_named(object, request.name);
    if (object.is_symlink()) co_return Errc::kNotSupported;
    if (acl.empty()) co_return Errc::kNoAttribute;
    reply.value = encode_acl(acl);
    co_return reply;
  }
  SPATE_CO_TRY(auto value, co_await stored_value(operation, object.handle(), request.name));
  if (!value) co_return Errc::kNoAttribute;
  reply.value = *std::move(value);
  co_return reply;
}

Outcome<wire::SetxattrReply> setxattr(Operation& operation, const wire::SetxattrRequest& request) {
  if (request.value.size() > kMaxXattrValueBytes) co_return Errc::kOutOfRange;
  SPATE_CO_TRY(std::ignore, check_xattr_length(request.name));
  SPATE_CO_TRY(InodeRecord object, co_await walk(operation, request.where));
  SPATE_CO_TRY(const XattrSpace space, xattr_space(request.name));
  SPATE_CO_TRY(std::ignore, check_writable(operation.who(), object, space));
  if (space == XattrSpace::kLayout) {
    SPATE_CO_TRY(std::ignore, check_flags(request.flags, layout_xattr(object, request.name).has_value()));
    const std::string_view text = as_text(request.value);
    SPATE_CO_TRY(std::ignore, set_layout_xattr(object, request.name, text, operation.core().membership().targets()));
  } else if (space == XattrSpace::kAcl) {
    SPATE_CO_TRY(std::ignore, set_acl(operation, object, request));
  } else {
    SPATE_CO_TRY(const auto before, co_await stored_value(operation, object.handle(), request.name));
    SPATE_CO_TRY(std::ignore, check_flags(request.flags, before.has_value()));
    const auto old_size = before ? std::optional(before->size()) : std::nullopt;
    SPATE_CO_TRY(std::ignore, account(object, request.name.size(), old_size, request.value.size()));
    put_value(operation, object.handle(), request.name, request.value);
  }
  touch(object, operation.now());
  operation.put(object);
  co_return wire::SetxattrReply{};
}

Outcome<wire::RemovexattrReply> removexattr(Operation& operation, const wire::RemovexattrRequest& request) {
  SPATE_CO_TRY(std::ignore, check_xattr_length(request.name));
  SPATE_CO_TRY(InodeRecord object, co_await walk(operation, request.where));
  SPATE_CO_TRY(const XattrSpace space, xattr_space(request.name));
  SPATE_CO_TRY(std::ignore, check_writable(operation.who(), object, space));
  if (space == XattrSpace::kLayout) {
    SPATE_CO_TRY(std::ignore,
                 set_layout_xattr(object, request.name, std::nullopt, operation.core().membership().targets()));
  } else if (space == XattrSpace::kAcl) {
    (request.name == kAccessAclXattr ? object.acl : object.default_acl).clear();
  } else {
    SPATE_CO_TRY(const auto before, co_await stored_value(operation, object.handle(), request.name));
    if (!before) co_return Errc::kNoAttribute;
    SPATE_CO_TRY(std::ignore, account(object, request.name.size(), before->size(), std::nullopt));
    operation.erase(xattr_key(object.handle(), request.name));
  }
  touch(object, operation.now());
  operation.put(object);
  co_return wire::RemovexattrReply{};
}

Outcome<wire::ListxattrReply> listxattr(Operation& operation, const wire::ListxattrRequest& request) {
  SPATE_CO_TRY(const InodeRecord object, co_await walk(operation, request.where, Reach::kOnTheWay));
  wire::ListxattrReply reply;
  const bool on_the_way = operation.confinement() != nullptr && !operation.confinement()->knows(object.handle());
  if (!on_the_way) reply.names = layout_xattr_names(object);
  for (const std::string_view name : {kAccessAclXattr, kDefaultAclXattr}) {
    if (!acl_named(object, name).empty()) reply.names.emplace_back(name);
  }
  if (on_the_way) co_return reply;
  trove::KeyRange range = xattrs_of(object.handle());
  range.limit = kListPage;
  range.mode = trove::ReadMode::kSnapshot;
  const auto take = [&](const trove::KeyValue& entry) -> Result<void> {
    const auto name = parse_xattr_key(entry.key);
    if (!name) return Error(Errc::kCorrupt, "an extended attribute has an invalid key in the store");
    const auto space = xattr_space(*name);
    if (space && (*space != XattrSpace::kTrusted || is_root(operation.who()))) reply.names.emplace_back(*name);
    return {};
  };
  if (object.xattr_count > 0) {
    SPATE_CO_TRY(std::ignore, co_await job::read_range(operation.store(), std::move(range),
                                                       "extended attributes in the meta store", take));
  }
  co_return reply;
}

}  // namespace spate::meta
