// SPDX-License-Identifier: Apache-2.0
#include "posix/open_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
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
      locks_(client, handle_),
      entries_(client, handle_) {}

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

/// Checks in the same order as Linux, because the order decides the error of a call with two mistakes.
Result<void> OpenFile::check_copy(const OpenFile& source) const {
  if ((source.flags_ & O_PATH) != 0 || (flags_ & O_PATH) != 0) return Errc::kBadDescriptor;
  if (source.type_ == FileType::kDirectory || type_ == FileType::kDirectory) return Errc::kIsDirectory;
  if (source.file_ == nullptr || file_ == nullptr) return Errc::kInvalidArgument;
  const bool allowed = allows(source.file_->rights(), Rights::kRead) && allows(file_->rights(), Rights::kWrite);
  return allowed && (flags_ & O_APPEND) == 0 ? Result<void>() : Errc::kBadDescriptor;
}

job::Task<Result<std::uint64_t>> OpenFile::copy_now(OpenFile& source, client::CopySpan span) {
  SPATE_CO_TRY(const Attributes from, co_await source.file_->stat());
  span.size = span.from < from.size ? std::min(span.size, from.size - span.from) : 0;
  if (source.handle_ == handle_ && span.from < span.to + span.size && span.to < span.from + span.size)
    co_return Error(Errc::kInvalidArgument, "the ranges overlap");
  if (span.size == 0) co_return std::uint64_t{0};
  if (span.to >= kMaxFileBytes) co_return Errc::kFileTooBig;
  span.size = std::min(span.size, kMaxFileBytes - span.to);
  SPATE_CO_TRY(const std::uint64_t copied, co_await file_->copy_from(*source.file_, span));
  if ((flags_ & (O_SYNC | O_DSYNC)) != 0) {
    SPATE_CO_TRY(std::ignore, co_await file_->sync());
  }
  co_return copied;
}

job::Task<Result<std::uint64_t>> OpenFile::copy_from(OpenFile& source, CopyParams params) {
  SPATE_CO_TRY(std::ignore, check_copy(source));
  if (params.from.value_or(0) < 0 || params.to.value_or(0) < 0) co_return Errc::kInvalidArgument;
  // Take both positions' turns in a fixed order, so that two copies cannot wait for each other.
  OpenFile* const first = std::min(&source, this);
  OpenFile* const second = std::max(&source, this);
  SPATE_CO_TRY(const auto first_turn, co_await first->position_turn_.acquire(1));
  job::Semaphore::Units second_turn;
  if (second != first) {
    SPATE_CO_TRY(second_turn, co_await second->position_turn_.acquire(1));
  }
  client::CopySpan span;
  span.from = params.from ? static_cast<std::uint64_t>(*params.from) : source.position_->load();
  span.to = params.to ? static_cast<std::uint64_t>(*params.to) : position_->load();
  span.size = params.size;
  if (span.from + span.size < span.from || span.to + span.size < span.to) co_return Errc::kInvalidArgument;
  SPATE_CO_TRY(const std::uint64_t copied, co_await copy_now(source, span));
  if (!params.from) source.position_->store(span.from + copied);
  if (!params.to) position_->store(span.to + copied);
  co_return copied;
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

job::Task<Result<std::optional<DirectoryItem>>> OpenFile::next_entry(bool with_attributes) {
  if (file_ != nullptr || type_ != FileType::kDirectory) co_return Errc::kNotDirectory;
  if ((flags_ & O_PATH) != 0) co_return Errc::kBadDescriptor;
  SPATE_CO_TRY(const auto turn, co_await position_turn_.acquire(1));
  const std::uint64_t position = position_->load();
  SPATE_CO_TRY(auto item, co_await entries_.next(position, with_attributes));
  if (item) position_->store(item->next);
  co_return item;
}

/// Fails unless this is a file or a directory.
Result<void> OpenFile::check_lockable() const {
  const bool directory = type_ == FileType::kDirectory && (flags_ & O_PATH) == 0;
  return directory ? Result<void>() : check_file(true);
}

job::Task<Result<wire::LockSpec>> OpenFile::record_lock_spec(RecordLock lock, bool sets) {
  SPATE_CO_TRY(std::ignore, check_lockable());
  std::int64_t base = 0;
  if (lock.range.l_whence == SEEK_CUR) {
    base = static_cast<std::int64_t>(position_->load());
  } else if (lock.range.l_whence == SEEK_END) {
    SPATE_CO_TRY(const Attributes now, co_await stat());
    base = static_cast<std::int64_t>(now.size);
  } else if (lock.range.l_whence != SEEK_SET) {
    co_return Errc::kInvalidArgument;
  }
  SPATE_CO_TRY(const wire::LockSpec spec, locks_.record_lock_spec(lock, base));
  const Rights needed = spec.mode == LockMode::kExclusive ? Rights::kWrite : Rights::kRead;
  const Rights has = file_ == nullptr ? Rights::kRead : file_->rights();  // a directory is never open for writing
  if (sets && spec.mode != LockMode::kNone && !allows(has, needed)) co_return Errc::kBadDescriptor;
  co_return spec;
}

Result<wire::LockSpec> OpenFile::flock_spec(int operation) const {
  SPATE_TRY(std::ignore, check_lockable());
  return locks_.flock_spec(operation);
}

job::Task<Result<void>> OpenFile::flock(int operation, job::StopToken stop) {
  SPATE_CO_TRY(const wire::LockSpec spec, flock_spec(operation));
  auto set = co_await locks_.set(spec, (operation & LOCK_NB) == 0, stop);
  co_return set;
}

job::Task<Result<void>> OpenFile::set_lock(RecordLock lock, bool wait, job::StopToken stop) {
  SPATE_CO_TRY(const wire::LockSpec spec, co_await record_lock_spec(lock, true));
  auto set = co_await locks_.set(spec, wait, stop);
  co_return set;
}

job::Task<Result<struct ::flock>> OpenFile::get_lock(RecordLock lock) {
  SPATE_CO_TRY(const wire::LockSpec spec, co_await record_lock_spec(lock, false));
  SPATE_CO_TRY(const auto found, co_await locks_.test(spec));
  co_return as_flock(lock.range, found);
}

job::Task<Result<void>> OpenFile::close() {
  auto released = co_await locks_.release_all();
  if (file_ == nullptr) co_return released;
  auto closed = co_await file_->close();
  if (closed && !released) co_return std::move(released).error();
  if (!closed) co_return std::move(closed).error();
  co_return Result<void>();
}

}  // namespace spate::posix
