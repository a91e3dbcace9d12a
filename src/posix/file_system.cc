// SPDX-License-Identifier: Apache-2.0
#include "posix/file_system.h"

#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "posix/convert.h"
#include "wire/xattr_messages.h"

namespace spate::posix {
namespace {

constexpr std::uint32_t kModeBits = 07777;

Result<std::uint8_t> rename_flags(unsigned flags) {
  unsigned out = 0;
  if ((flags & RENAME_NOREPLACE) != 0) out |= wire::kRenameNoReplace;
  if ((flags & RENAME_EXCHANGE) != 0) out |= wire::kRenameExchange;
  const bool both = (flags & RENAME_NOREPLACE) != 0 && (flags & RENAME_EXCHANGE) != 0;
  if (both || (flags & ~static_cast<unsigned>(RENAME_NOREPLACE | RENAME_EXCHANGE)) != 0) return Errc::kInvalidArgument;
  return static_cast<std::uint8_t>(out);
}

/// Whether the last component is "." or "..".
bool ends_in_dots(std::string_view path) {
  const std::size_t end = path.find_last_not_of('/');
  if (end == std::string_view::npos) return false;
  path = path.substr(0, end + 1);
  const std::size_t slash = path.rfind('/');
  const std::string_view last = slash == std::string_view::npos ? path : path.substr(slash + 1);
  return last == "." || last == "..";
}

/// The same path, but a link at its end is not followed, as for mkdir, rename and similar calls.
PathAt not_followed(PathAt where) {
  where.follow = false;
  return where;
}

}  // namespace

FileSystem::FileSystem(client::Client& client, FileSystemOptions options)
    : client_(client), options_(std::move(options)), paths_(client, options_.link_prefix) {}

job::Task<Result<Attributes>> FileSystem::stat(PathAt where) {
  const auto operation = [this](wire::NamePath path) { return client_.stat(std::move(path)); };
  SPATE_CO_TRY(auto object, co_await paths_.walk(std::move(where), operation));
  co_return object.attributes;
}

std::optional<Result<Attributes>> FileSystem::kept_attributes(const PathAt& where) const {
  if (!client_.keeps_attributes()) return std::nullopt;
  const auto path = to_name_path(where, paths_.rooted());
  if (!path) return std::nullopt;
  return client_.kept_attributes(*path);
}

std::uint32_t FileSystem::new_mode(std::uint32_t mode) const {
  constexpr std::uint32_t kUmaskBits = 0777U << wire::NewAttributes::kUmaskShift;
  return (mode & (kModeBits | kUmaskBits)) | ((options_.umask & 0777U) << wire::NewAttributes::kUmaskShift);
}

job::Task<Result<void>> FileSystem::access(PathAt where, int wanted) {
  if ((wanted & ~(R_OK | W_OK | X_OK)) != 0) co_return Errc::kInvalidArgument;
  static_assert(R_OK == 4 && W_OK == 2 && X_OK == 1, "the request's own bits");
  const auto want = static_cast<std::uint8_t>(wanted);
  const auto operation = [this, want](wire::NamePath path) { return client_.access(std::move(path), want); };
  SPATE_CO_TRY(std::ignore, co_await paths_.walk(std::move(where), operation));
  co_return Result<void>();
}

job::Task<Result<std::string>> FileSystem::readlink(PathAt where) {
  const auto operation = [this](wire::NamePath path) { return client_.lookup(std::move(path)); };
  SPATE_CO_TRY(auto object, co_await paths_.walk(not_followed(std::move(where)), operation));
  if (object.attributes.type != FileType::kSymlink) co_return Errc::kInvalidArgument;
  co_return std::move(object.target);
}

job::Task<Result<Attributes>> FileSystem::mknod(PathAt where, std::uint32_t mode, std::uint64_t device) {
  wire::CreateRequest request;
  SPATE_CO_TRY(request.type, type_of_mode(mode));
  if (request.type == FileType::kDirectory) co_return Errc::kNotPermitted;
  if (request.type == FileType::kSymlink) co_return Errc::kInvalidArgument;
  request.device = device;
  request.attributes.mode = new_mode(mode);
  request.open_flags = wire::kOpenExclusive;
  const auto operation = [this, &request](wire::NamePath path) {
    request.where = std::move(path);
    return client_.make_node(request);
  };
  auto made = co_await paths_.walk(not_followed(std::move(where)), operation);
  co_return made;
}

job::Task<Result<Attributes>> FileSystem::mkdir(PathAt where, std::uint32_t mode) {
  wire::NewAttributes attributes;
  attributes.mode = new_mode(mode);
  const auto operation = [this, &attributes](wire::NamePath path) {
    return client_.mkdir(std::move(path), attributes);
  };
  auto made = co_await paths_.walk(not_followed(std::move(where)), operation);
  co_return made;
}

job::Task<Result<void>> FileSystem::rmdir(PathAt where) {
  const auto operation = [this](wire::NamePath path) { return client_.rmdir(std::move(path)); };
  auto done = co_await paths_.walk(not_followed(std::move(where)), operation);
  co_return done;
}

job::Task<Result<void>> FileSystem::unlink(PathAt where) {
  const auto operation = [this](wire::NamePath path) { return client_.unlink(std::move(path)); };
  auto done = co_await paths_.walk(not_followed(std::move(where)), operation);
  co_return done;
}

job::Task<Result<Attributes>> FileSystem::symlink(std::string target, PathAt where) {
  const auto operation = [this, &target](wire::NamePath path) { return client_.symlink(std::move(path), target); };
  auto made = co_await paths_.walk(not_followed(std::move(where)), operation);
  co_return made;
}

job::Task<Result<Attributes>> FileSystem::link(PathAt existing, PathAt where) {
  const auto operation = [this](wire::NamePath old, wire::NamePath path) {
    return client_.link(std::move(old), std::move(path));
  };
  auto made = co_await paths_.walk_both(std::move(existing), not_followed(std::move(where)), operation);
  co_return made;
}

job::Task<Result<void>> FileSystem::rename(PathAt from, PathAt to, unsigned flags) {
  SPATE_CO_TRY(const std::uint8_t how, rename_flags(flags));
  const auto operation = [this, how](wire::NamePath old, wire::NamePath path) {
    return client_.rename(std::move(old), std::move(path), how);
  };
  const bool dots = ends_in_dots(from.path) || ends_in_dots(to.path);
  auto done = co_await paths_.walk_both(not_followed(std::move(from)), not_followed(std::move(to)), operation);
  // Linux returns EBUSY. In Spate's protocol kBusy means that a retry may succeed, so the servers do not use it here.
  if (dots && done.code() == Errc::kInvalidArgument) co_return Errc::kBusy;
  co_return done;
}

job::Task<Result<void>> FileSystem::truncate(PathAt where, std::int64_t size) {
  if (size < 0) co_return Errc::kInvalidArgument;
  const auto operation = [this, size](wire::NamePath path) {
    return client_.truncate(std::move(path), static_cast<std::uint64_t>(size));
  };
  auto done = co_await paths_.walk(std::move(where), operation);
  co_return done;
}

job::Task<Result<Attributes>> FileSystem::set_attributes(PathAt where, wire::SetattrRequest request) {
  const bool links_mode = request.mode && !where.follow && !where.path.empty();
  const auto operation = [this, &request](wire::NamePath path) {
    request.where = std::move(path);
    return client_.setattr(request);
  };
  if (links_mode) {
    SPATE_CO_TRY(const Attributes now, co_await stat(where));
    if (now.type == FileType::kSymlink) co_return Errc::kNotSupported;
  }
  auto set = co_await paths_.walk(std::move(where), operation);
  co_return set;
}

job::Task<Result<Bytes>> FileSystem::getxattr(PathAt where, std::string name) {
  const auto operation = [this, &name](wire::NamePath path) { return client_.getxattr(std::move(path), name); };
  auto value = co_await paths_.walk(std::move(where), operation);
  co_return value;
}

job::Task<Result<void>> FileSystem::setxattr(PathAt where, std::string name, Bytes value, int flags) {
  if ((flags & ~(XATTR_CREATE | XATTR_REPLACE)) != 0) co_return Errc::kInvalidArgument;
  if (value.size() > kMaxXattrValueBytes) co_return Errc::kArgumentTooLong;
  wire::SetxattrRequest request;
  request.name = std::move(name);
  request.value = std::move(value);
  if ((flags & XATTR_CREATE) != 0) request.flags |= wire::kXattrCreate;
  if ((flags & XATTR_REPLACE) != 0) request.flags |= wire::kXattrReplace;
  const auto operation = [this, &request](wire::NamePath path) {
    request.where = std::move(path);
    return client_.setxattr(request);
  };
  auto set = co_await paths_.walk(std::move(where), operation);
  co_return set;
}

job::Task<Result<std::vector<std::string>>> FileSystem::listxattr(PathAt where) {
  const auto operation = [this](wire::NamePath path) { return client_.listxattr(std::move(path)); };
  auto names = co_await paths_.walk(std::move(where), operation);
  co_return names;
}

job::Task<Result<void>> FileSystem::removexattr(PathAt where, std::string name) {
  const auto operation = [this, &name](wire::NamePath path) { return client_.removexattr(std::move(path), name); };
  auto done = co_await paths_.walk(std::move(where), operation);
  co_return done;
}

}  // namespace spate::posix
