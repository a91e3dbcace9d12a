// SPDX-License-Identifier: Apache-2.0
#include "tools/destination.h"

#include <fmt/core.h>
#include <unistd.h>

#include "tools/context.h"

namespace spate::tools {

Error cannot_make(Error error, const Destination& destination) {
  const bool wants_directory = destination.to.ends_with('/');
  if (error.code() == Errc::kNotFound || (error.code() == Errc::kIsDirectory && wants_directory)) {
    const std::string folder = wants_directory ? destination.to : split_path(destination.to).first;
    return Error::told(
        Errc::kNotFound,
        fmt::format("spate:{} cannot be made, as there is no spate:{} (`spate mkdir -p spate:{}` makes it)",
                    destination.to, folder, folder));
  }
  if (error.code() == Errc::kIsDirectory) {
    return Error::told(error.code(), fmt::format("cannot overwrite directory spate:{} with non-directory {}",
                                                 destination.to, destination.from));
  }
  return std::move(error).within("spate:" + destination.to);
}

bool keeps_owners() {
  static const bool root = ::geteuid() == 0;  // a copy of a small file would ask the kernel three times
  return root;
}

wire::NewAttributes attributes_for_copy(const Owned& source) {
  wire::NewAttributes attributes;
  constexpr std::uint32_t kPlain = 01777;
  attributes.mode = source.mode & kPlain;
  if (keeps_owners()) {
    attributes.uid = source.uid;
    attributes.gid = source.gid;
  }
  return attributes;
}

wire::NamePath name_in(Handle directory, std::string name) { return wire::NamePath{directory, std::move(name), 0}; }

wire::SetattrRequest owner_and_mode(const Attributes& copy, const Owned& source) {
  const wire::NewAttributes wanted = attributes_for_copy(source);
  wire::SetattrRequest request;
  request.where.start = copy.handle;
  request.mode = source.mode_for(wanted.uid.value_or(copy.uid), wanted.gid.value_or(copy.gid));
  request.uid = wanted.uid;
  request.gid = wanted.gid;
  return request;
}

job::Task<Result<std::unique_ptr<client::File>>> create_file(client::Client& client, const Destination& destination,
                                                             client::NewObject object) {
  const std::uint8_t flags = wire::kOpenWrite | wire::kOpenTruncate;
  auto file = co_await client.create(destination.where, flags, object);
  if (!file && file.code() == Errc::kSymlinkLoop && (destination.where.flags & wire::NamePath::kFollowLast) == 0) {
    auto removed = co_await client.unlink(destination.where);
    if (!removed) co_return cannot_make(std::move(removed).error(), destination);
    file = co_await client.create(destination.where, flags, object);
  }
  if (!file) co_return cannot_make(std::move(file).error(), destination);
  co_return file;
}

job::Task<Result<Attributes>> make_or_find_directory(client::Client& client, const Destination& destination,
                                                     wire::NewAttributes attributes) {
  wire::NamePath where = destination.where;
  where.flags &= static_cast<std::uint8_t>(~wire::NamePath::kFollowLast);
  auto made = co_await client.mkdir(where, attributes);
  if (made) co_return *std::move(made);
  if (made.code() != Errc::kExists) co_return cannot_make(std::move(made).error(), destination);
  auto there = co_await client.lookup(where);
  if (!there) co_return std::move(there).error().within("spate:" + destination.to);
  const Attributes& found = there->attributes;
  if (found.type != FileType::kDirectory) {
    co_return Error::told(Errc::kNotDirectory, fmt::format("cannot overwrite non-directory spate:{} with directory {}",
                                                           destination.to, destination.from));
  }
  if ((found.mode & ~attributes.mode & kForOthers) != 0) {  // fewer users may read the source than this directory
    wire::SetattrRequest request;
    request.where.start = found.handle;
    request.mode = (found.mode & attributes.mode) | 0700U;
    auto set = co_await client.setattr(request);
    if (!set) co_return std::move(set).error().within("mode of spate:" + destination.to);
  }
  co_return found;
}

/// For a file that existed before. Its access list may name users who may not read the source.
job::Task<Result<void>> remove_access_list(client::Client& client, const client::File& file) {
  constexpr const char* kList = "system.posix_acl_access";
  const Attributes& there = file.attributes();
  if (there.btime.ns == there.ctime.ns) co_return Result<void>();  // the file is new
  wire::NamePath where;
  where.start = file.handle();
  auto removed = co_await client.removexattr(where, kList);
  if (removed || removed.code() == Errc::kNoAttribute || removed.code() == Errc::kNotSupported)
    co_return Result<void>();
  auto list = co_await client.getxattr(where, kList);  // another user's file may have none
  if (!list && list.code() == Errc::kNoAttribute) co_return Result<void>();
  co_return std::move(removed).error().within("its access list cannot be removed, and nothing was written to it");
}

job::Task<Result<void>> lend_rights_again(client::Client& client, const client::File& file, const Owned& source) {
  const Attributes& there = file.attributes();
  const wire::NewAttributes given = attributes_for_copy(source);
  wire::SetattrRequest request;
  request.where.start = file.handle();
  request.mode = source.mode_for(given.uid.value_or(there.uid), given.gid.value_or(there.gid));
  if ((*request.mode & 06000U) == 0) co_return Result<void>();
  auto set = co_await client.setattr(request);
  if (!set) co_return std::move(set).error().within("its mode cannot be set");
  co_return Result<void>();
}

job::Task<Result<void>> adopt_attributes(client::Client& client, const client::File& file, const Owned& source) {
  SPATE_CO_TRY(std::ignore, co_await remove_access_list(client, file));
  const Attributes& there = file.attributes();
  wire::NewAttributes wanted = attributes_for_copy(source);
  wanted.mode = source.mode_for(wanted.uid.value_or(there.uid), wanted.gid.value_or(there.gid));
  wire::SetattrRequest request;
  request.where.start = file.handle();
  if (wanted.uid && *wanted.uid != there.uid) request.uid = wanted.uid;
  if (wanted.gid && *wanted.gid != there.gid) request.gid = wanted.gid;
  if (there.mode == wanted.mode && !request.uid && !request.gid) co_return Result<void>();
  request.mode = wanted.mode;  // always set it, since a change of the owner clears bits
  auto set = co_await client.setattr(request);
  if (set) co_return Result<void>();
  if (set.code() == Errc::kNotPermitted && (there.mode & ~wanted.mode & kForOthers) == 0) co_return Result<void>();
  co_return std::move(set).error().within("its mode and owner cannot be set, and nothing was written to it");
}

}  // namespace spate::tools
