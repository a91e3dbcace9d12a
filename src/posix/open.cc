// SPDX-License-Identifier: Apache-2.0
// FileSystem::open.
#include <fcntl.h>
#include <unistd.h>

#include "posix/file_system.h"

namespace spate::posix {
namespace {

bool has(int flags, int flag) { return (flags & flag) == flag; }

/// Refuses the flags that Linux refuses before it looks at the path.
Result<void> check_flags(int flags) {
  if (has(flags, O_TMPFILE)) return (flags & (O_WRONLY | O_RDWR)) != 0 ? Result<void>() : Errc::kInvalidArgument;
  if (has(flags, O_PATH)) return {};
  if ((flags & O_ACCMODE) == O_ACCMODE) return Errc::kInvalidArgument;
  return has(flags, O_CREAT | O_DIRECTORY) ? Errc::kInvalidArgument : Result<void>();
}

std::uint8_t wire_flags(int flags) {
  unsigned out = 0;
  const int access = flags & O_ACCMODE;
  if (access != O_WRONLY) out |= wire::kOpenRead;
  if (access != O_RDONLY) out |= wire::kOpenWrite;
  if (has(flags, O_TRUNC)) out |= wire::kOpenTruncate;
  if (has(flags, O_CREAT | O_EXCL)) out |= wire::kOpenExclusive;
  if (has(flags, O_TMPFILE)) out |= wire::kOpenTemporary;
  if (has(flags, O_TMPFILE | O_EXCL)) out |= wire::kOpenExclusive;
  return static_cast<std::uint8_t>(out);
}

}  // namespace

struct FileSystem::OpenParams {
  int flags = 0;
  client::NewObject object;
};

job::Task<Result<std::unique_ptr<OpenFile>>> FileSystem::open(OpenRequest request) {
  SPATE_CO_TRY(std::ignore, check_flags(request.flags));
  if (has(request.flags, O_NOFOLLOW) || has(request.flags, O_CREAT | O_EXCL)) request.where.follow = false;
  OpenParams params;
  params.flags = request.flags;
  params.object.attributes.mode = new_mode(request.mode);
  params.object.layout = std::move(request.layout);
  const auto operation = [this, &params](wire::NamePath path) { return open_once(params, std::move(path)); };
  auto opened = co_await paths_.walk(std::move(request.where), operation);
  co_return opened;
}

job::Task<Result<std::unique_ptr<OpenFile>>> FileSystem::open_once(const OpenParams& params, wire::NamePath path) {
  const bool temporary = has(params.flags, O_TMPFILE) && !has(params.flags, O_PATH);
  if (!temporary && (has(params.flags, O_PATH) || has(params.flags, O_DIRECTORY))) {
    auto opened = co_await open_place(params.flags, std::move(path));
    co_return opened;
  }
  if (has(params.flags, O_NOATIME)) {
    SPATE_CO_TRY(std::ignore, co_await check_owner(path));
  }
  Result<std::unique_ptr<client::File>> file = Errc::kInvalidArgument;
  if (temporary || has(params.flags, O_CREAT)) {
    client::NewObject object = params.object;
    file = co_await client_.create(path, wire_flags(params.flags), std::move(object));
  } else {
    file = co_await client_.open(path, wire_flags(params.flags));
  }
  if (file) {
    const Attributes attributes = (*file)->attributes();
    co_return make_open_file(params.flags, attributes, *std::move(file));
  }
  const bool only_reads = (params.flags & (O_ACCMODE | O_TRUNC | O_CREAT)) == O_RDONLY;
  if (file.code() == Errc::kIsDirectory && only_reads) {
    auto opened = co_await open_place(params.flags | O_DIRECTORY, std::move(path));
    co_return opened;
  }
  if (file.code() == Errc::kNotSupported) co_return Errc::kNoSuchDevice;
  co_return std::move(file).error();
}

/// If the object does not exist or cannot be reached, the check passes and the open itself reports that.
job::Task<Result<void>> FileSystem::check_owner(wire::NamePath path) {
  const std::uint32_t uid = client_.cluster().options().credential.uid;
  if (uid == 0) co_return Result<void>();
  auto object = co_await client_.lookup(std::move(path));
  co_return object && object->attributes.uid != uid ? Errc::kNotPermitted : Result<void>();
}

/// Opens a directory, or with O_PATH any object. The servers do not know of such an open.
job::Task<Result<std::unique_ptr<OpenFile>>> FileSystem::open_place(int flags, wire::NamePath path) {
  const bool only_a_place = has(flags, O_PATH);
  const wire::NamePath again = path;
  auto object = co_await client_.access(std::move(path), only_a_place ? 0 : R_OK);
  if (!object && object.code() == Errc::kPermissionDenied && !only_a_place) {
    // An error about the kind of object comes before one about rights to it, unless the object cannot even be reached.
    auto there = co_await client_.lookup(again);
    if (there && there->attributes.type != FileType::kDirectory && has(flags, O_DIRECTORY))
      co_return Errc::kNotDirectory;
    if (there && (flags & O_ACCMODE) != O_RDONLY) co_return Errc::kIsDirectory;
  }
  if (!object) co_return std::move(object).error();
  const bool directory = object->attributes.type == FileType::kDirectory;
  if (has(flags, O_DIRECTORY) && !directory) co_return Errc::kNotDirectory;
  if (!only_a_place && ((flags & O_ACCMODE) != O_RDONLY || has(flags, O_TRUNC))) co_return Errc::kIsDirectory;
  co_return make_open_file(flags, object->attributes, nullptr);
}

std::unique_ptr<OpenFile> FileSystem::make_open_file(int flags, const Attributes& attributes,
                                                     std::unique_ptr<client::File> file) {
  OpenFile::Parts parts;
  parts.handle = attributes.handle;
  parts.type = attributes.type;
  parts.flags = flags & ~(O_CREAT | O_EXCL | O_TRUNC | O_NOCTTY | O_CLOEXEC | (has(flags, O_TMPFILE) ? O_TMPFILE : 0));
  parts.file = std::move(file);
  parts.attributes = attributes;
  if (parts.file != nullptr && has(flags, O_NOATIME)) parts.file->forget_reads();
  return std::make_unique<OpenFile>(client_, std::move(parts));
}

}  // namespace spate::posix
