// SPDX-License-Identifier: Apache-2.0
#include "posix/open_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <limits>
#include <numeric>

#include "posix/sparse.h"

namespace spate::posix {
namespace {

template <typename View>
std::uint64_t total_of(std::span<const View> memory) {
  return std::accumulate(memory.begin(), memory.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const View& view) { return sum + view.size(); });
}

/// Refuses ranges that off_t cannot express.
Result<void> check_range(std::uint64_t offset, std::uint64_t size) {
  constexpr std::uint64_t kEnd = std::numeric_limits<std::int64_t>::max();
  return size <= kEnd && offset <= kEnd - size ? Result<void>() : Errc::kInvalidArgument;
}

bool is_synchronous(int flags) { return (flags & (O_SYNC | O_DSYNC)) != 0; }
/// A number that identifies an open file as an owner of locks; never 0.
std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

bool appends(int flags) { return (flags & O_APPEND) != 0; }

}  // namespace

OpenFile::OpenFile(client::Client& client, Parts parts)
    : client_(client),
      handle_(parts.handle),
      type_(parts.type),
      flags_(parts.flags),
      file_(std::move(parts.file)),
      attributes_(std::move(parts.attributes)),
      position_turn_(client.cluster().executor(), 1),
      number_(next_number()) {}

Result<void> OpenFile::check_file(bool writes) const {
  if (file_ != nullptr) return {};
  const bool directory = type_ == FileType::kDirectory && (flags_ & O_PATH) == 0;
  return directory && !writes ? Errc::kIsDirectory : Errc::kBadDescriptor;
}

job::Task<Result<std::uint64_t>> OpenFile::pread(std::uint64_t offset, std::span<const MutableByteView> memory) {
  SPATE_CO_TRY(std::ignore, check_file(false));
  SPATE_CO_TRY(std::ignore, check_range(offset, total_of(memory)));
  if (offset >= kMaxFileBytes) co_return std::uint64_t{0};
  const std::uint64_t size = std::min(total_of(memory), kMaxFileBytes - offset);
  SPATE_CO_TRY(const auto what, datatype::Description::contiguous(offset, size));
  auto got = co_await file_->read_list(what, memory);
  co_return got;
}

job::Task<Result<std::uint64_t>> OpenFile::pwrite(std::uint64_t offset, std::span<const ByteView> memory) {
  SPATE_CO_TRY(std::ignore, check_file(true));
  SPATE_CO_TRY(std::ignore, check_range(offset, total_of(memory)));
  if (!appends(flags_)) {
    auto written = co_await write_at(offset, memory);
    co_return written;
  }
  SPATE_CO_TRY(std::ignore, co_await append(memory));
  co_return total_of(memory);
}

job::Task<Result<std::uint64_t>> OpenFile::write_at(std::uint64_t offset, std::span<const ByteView> memory) {
  const std::uint64_t size = total_of(memory);
  SPATE_CO_TRY(const auto what, datatype::Description::contiguous(offset, size));
  auto written = co_await write_list(what, memory);
  co_return written;
}

job::Task<Result<std::uint64_t>> OpenFile::read_list(const datatype::Description& what,
                                                     std::span<const MutableByteView> memory) {
  SPATE_CO_TRY(std::ignore, check_file(false));
  if (total_of(memory) < what.total_bytes())
    co_return Error(Errc::kInvalidArgument, "less memory than the request reads");
  auto got = co_await file_->read_list(what, memory);
  co_return got;
}

job::Task<Result<std::uint64_t>> OpenFile::write_list(const datatype::Description& what,
                                                      std::span<const ByteView> memory) {
  SPATE_CO_TRY(std::ignore, check_file(true));
  if (total_of(memory) < what.total_bytes())
    co_return Error(Errc::kInvalidArgument, "less memory than the request writes");
  SPATE_CO_TRY(std::ignore, co_await file_->write_list(what, memory));
  if (is_synchronous(flags_)) {
    SPATE_CO_TRY(std::ignore, co_await file_->sync());
  }
  co_return what.total_bytes();
}

job::Task<Result<std::uint64_t>> OpenFile::end_of_file() {
  SPATE_CO_TRY(const Attributes now, co_await file_->stat());
  co_return now.size;
}

/// Returns the offset at which the data was written.
job::Task<Result<std::uint64_t>> OpenFile::append(std::span<const ByteView> memory) {
  SPATE_CO_TRY(const std::uint64_t end, co_await file_->append(memory));
  if (is_synchronous(flags_)) {
    SPATE_CO_TRY(std::ignore, co_await file_->sync());
  }
  co_return end;
}

job::Task<Result<std::uint64_t>> OpenFile::read(std::span<const MutableByteView> memory) {
  SPATE_CO_TRY(std::ignore, check_file(false));
  SPATE_CO_TRY(const auto turn, co_await position_turn_.acquire(1));
  const std::uint64_t offset = position_->load();
  SPATE_CO_TRY(const std::uint64_t got, co_await pread(offset, memory));
  position_->store(offset + got);
  co_return got;
}

job::Task<Result<std::uint64_t>> OpenFile::write(std::span<const ByteView> memory) {
  SPATE_CO_TRY(std::ignore, check_file(true));
  SPATE_CO_TRY(const auto turn, co_await position_turn_.acquire(1));
  std::uint64_t offset = position_->load();
  if (appends(flags_)) {
    SPATE_CO_TRY(offset, co_await append(memory));
  } else {
    SPATE_CO_TRY(std::ignore, co_await write_at(offset, memory));
  }
  const std::uint64_t size = total_of(memory);
  position_->store(offset + size);
  co_return size;
}

job::Task<Result<std::uint64_t>> OpenFile::seek(std::int64_t offset, int whence) {
  if ((flags_ & O_PATH) != 0) co_return Errc::kBadDescriptor;
  SPATE_CO_TRY(const auto turn, co_await position_turn_.acquire(1));
  std::int64_t base = 0;
  if (whence == SEEK_CUR) {
    base = static_cast<std::int64_t>(position_->load());
  } else if (file_ != nullptr && (whence == SEEK_DATA || whence == SEEK_HOLE)) {
    SPATE_CO_TRY(const std::uint64_t found, co_await find_data(*file_, offset, whence == SEEK_HOLE));
    base = static_cast<std::int64_t>(found);
    offset = 0;
  } else if (file_ != nullptr && whence == SEEK_END) {
    SPATE_CO_TRY(const std::uint64_t end, co_await end_of_file());
    base = static_cast<std::int64_t>(end);
  } else if (whence != SEEK_SET) {
    co_return Errc::kInvalidArgument;
  }
  std::int64_t target = 0;
  if (__builtin_add_overflow(base, offset, &target) || target < 0) co_return Errc::kInvalidArgument;
  position_->store(static_cast<std::uint64_t>(target));
  co_return static_cast<std::uint64_t>(target);
}

job::Task<Result<void>> OpenFile::truncate(std::int64_t size) {
  if (size < 0) co_return Errc::kInvalidArgument;
  if (file_ == nullptr) co_return (flags_ & O_PATH) != 0 ? Errc::kBadDescriptor : Errc::kInvalidArgument;
  auto cut = co_await file_->truncate(static_cast<std::uint64_t>(size));
  co_return cut;
}

job::Task<Result<void>> OpenFile::allocate(int mode, std::int64_t offset, std::int64_t size) {
  SPATE_CO_TRY(const Allocation allocation, allocation_of(mode, offset, size));
  SPATE_CO_TRY(std::ignore, check_file(true));
  auto done = co_await posix::allocate(*file_, allocation);
  co_return done;
}

job::Task<Result<void>> OpenFile::sync() {
  if ((flags_ & O_PATH) != 0) co_return Errc::kBadDescriptor;
  if (file_ == nullptr) {
    auto synced = co_await client_.sync();
    co_return synced;
  }
  auto synced = co_await file_->sync();
  co_return synced;
}

job::Task<Result<Attributes>> OpenFile::stat() {
  if (file_ != nullptr) {
    auto attributes = co_await file_->stat();
    co_return attributes;
  }
  wire::NamePath self;
  self.start = handle_;
  auto object = co_await client_.stat(std::move(self));
  // The servers do not know that it is open. So it is gone when its last name is removed.
  if (object) {
    attributes_ = object->attributes;
  } else if (object.code() == Errc::kStaleHandle) {
    attributes_.link_count = 0;
  } else {
    co_return std::move(object).error();
  }
  co_return attributes_;
}

job::Task<Result<Attributes>> OpenFile::set_attributes(wire::SetattrRequest request) {
  if ((flags_ & O_PATH) != 0) co_return Errc::kBadDescriptor;
  request.where = wire::NamePath();
  request.where.start = handle_;
  auto set = co_await client_.setattr(std::move(request));
  co_return set;
}

job::Task<Result<void>> OpenFile::close() {
  auto released = co_await release_locks();
  if (file_ == nullptr) co_return released;
  auto closed = co_await file_->close();
  if (closed && !released) co_return std::move(released).error();
  if (!closed) co_return std::move(closed).error();
  co_return Result<void>();
}

}  // namespace spate::posix
