// SPDX-License-Identifier: Apache-2.0
#include "trove/sparse.h"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <optional>

#include "base/retried.h"

namespace spate::trove {
namespace {

/// Buffer for a copy through memory, when the kernel does not copy.
constexpr std::size_t kCopyBuffer = 1U << 20U;

/// The first byte of data (SEEK_DATA) or of a hole (SEEK_HOLE) from `from` on; kNoSuchDevice when there is none before
/// the end, kNotSupported when the file system does not say.
Result<std::uint64_t> next(int fd, std::uint64_t from, int whence) {
  const off_t at = ::lseek(fd, static_cast<off_t>(from), whence);
  if (at >= 0) return static_cast<std::uint64_t>(at);
  if (errno == ENXIO) return Errc::kNoSuchDevice;
  if (errno == EINVAL || errno == EOPNOTSUPP) return Errc::kNotSupported;
  return errc_from_errno(errno);
}

Result<std::uint64_t> size_of(int fd) {
  struct stat st{};
  if (::fstat(fd, &st) != 0) return errc_from_errno(errno);
  return static_cast<std::uint64_t>(st.st_size);
}

/// Reports everything from `from` to the end as data.
Errc take_all(int fd, std::uint64_t from, BytestreamCompletion& done) {
  const Result<std::uint64_t> size = size_of(fd);
  if (!size) return size.code();
  if (*size > from) done.ranges.push_back({from, *size - from});
  done.complete_to = kMaxDatafileBytes;
  return Errc::kOk;
}

Errc make_hole(int fd, const Extent& extent) {
  if (extent.size == 0) return Errc::kOk;
  const auto offset = static_cast<off_t>(extent.offset);
  const auto size = static_cast<off_t>(extent.size);
  const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  return retried([&] { return ::fallocate(fd, mode, offset, size); }) == 0 ? Errc::kOk : errc_from_errno(errno);
}

Errc copy_through_memory(CopySource source, int to_fd, Extent to) {
  Bytes buffer(static_cast<std::size_t>(std::min<std::uint64_t>(to.size, kCopyBuffer)));
  while (to.size > 0) {
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(to.size, buffer.size()));
    const ssize_t got =
        retried([&] { return ::pread(source.fd, buffer.data(), want, static_cast<off_t>(source.offset)); });
    if (got < 0) return errc_from_errno(errno);
    if (got == 0) return make_hole(to_fd, to);  // the source became shorter meanwhile
    for (std::size_t put = 0; put < static_cast<std::size_t>(got);) {
      const ssize_t n = retried([&] {
        return ::pwrite(to_fd, buffer.data() + put, static_cast<std::size_t>(got) - put,
                        static_cast<off_t>(to.offset + put));
      });
      if (n <= 0) return n < 0 ? errc_from_errno(errno) : Errc::kIoError;
      put += static_cast<std::size_t>(n);
    }
    source.offset += static_cast<std::uint64_t>(got);
    to = {to.offset + static_cast<std::uint64_t>(got), to.size - static_cast<std::uint64_t>(got)};
  }
  return Errc::kOk;
}

bool kernel_refuses(int error) { return error == EXDEV || error == EINVAL || error == EOPNOTSUPP || error == ENOSYS; }

Errc copy_data(CopySource source, int to_fd, Extent to) {
  while (to.size > 0) {
    auto from_at = static_cast<off64_t>(source.offset);
    auto to_at = static_cast<off64_t>(to.offset);
    const ssize_t n = retried([&] { return ::copy_file_range(source.fd, &from_at, to_fd, &to_at, to.size, 0); });
    if (n < 0 && kernel_refuses(errno)) return copy_through_memory(source, to_fd, to);
    if (n < 0) return errc_from_errno(errno);
    if (n == 0) return make_hole(to_fd, to);  // the source became shorter meanwhile
    source.offset += static_cast<std::uint64_t>(n);
    to = {to.offset + static_cast<std::uint64_t>(n), to.size - static_cast<std::uint64_t>(n)};
  }
  return Errc::kOk;
}

/// Extends the file to `end`. It never makes the file shorter than other writers have made it meanwhile, as ftruncate
/// might.
Errc reach(int fd, std::uint64_t end) {
  const Result<std::uint64_t> size = size_of(fd);
  if (!size) return size.code();
  if (*size >= end) return Errc::kOk;
  if (retried([&] { return ::fallocate(fd, 0, static_cast<off_t>(end - 1), 1); }) == 0) return Errc::kOk;
  if (errno != EOPNOTSUPP) return errc_from_errno(errno);
  const char zero = 0;
  return retried([&] { return ::pwrite(fd, &zero, 1, static_cast<off_t>(end - 1)); }) == 1 ? Errc::kOk
                                                                                           : errc_from_errno(errno);
}

/// As missing_bytes(); nothing if the file system does not report extents.
std::optional<std::uint64_t> missing_by_extents(int fd, const Extent& range) {
  constexpr unsigned kMost = 32;  // extents of one answer
  const std::uint64_t end = range.offset + range.size;
  std::uint64_t placed = 0;
  for (std::uint64_t at = range.offset; at < end;) {
    alignas(fiemap) std::array<std::byte, sizeof(fiemap) + kMost * sizeof(fiemap_extent)> raw{};
    auto* const map = reinterpret_cast<fiemap*>(raw.data());
    map->fm_start = at;
    map->fm_length = end - at;
    map->fm_extent_count = kMost;
    if (::ioctl(fd, FS_IOC_FIEMAP, map) != 0) return std::nullopt;
    const auto* const extents = reinterpret_cast<const fiemap_extent*>(raw.data() + offsetof(fiemap, fm_extents));
    for (unsigned i = 0; i < map->fm_mapped_extents; ++i) {
      const std::uint64_t first = std::max(at, std::uint64_t{extents[i].fe_logical});
      const std::uint64_t last = std::min(end, std::uint64_t{extents[i].fe_logical + extents[i].fe_length});
      const bool moves = (extents[i].fe_flags & (FIEMAP_EXTENT_SHARED | FIEMAP_EXTENT_ENCODED)) != 0;
      if (first < last && !moves) placed += last - first;
      at = std::max(at, last);
    }
    if (map->fm_mapped_extents < kMost) break;
  }
  return range.size - placed;
}

}  // namespace

std::uint64_t missing_bytes(int fd, const Extent& range) {
  if (const auto missing = missing_by_extents(fd, range)) return *missing;
  constexpr std::uint64_t kPage = 4096;
  const std::uint64_t end = range.offset + range.size;
  std::uint64_t missing = 0;
  for (std::uint64_t at = range.offset; at < end;) {
    const Result<std::uint64_t> data = next(fd, at, SEEK_DATA);
    const std::uint64_t data_at = data ? std::min(end, *data) : end;
    missing += data_at - at;
    if (data_at == end) break;
    const Result<std::uint64_t> hole = next(fd, data_at, SEEK_HOLE);
    // The end of the file counts as a hole, wherever in its page it lies.
    at = hole ? std::min(end, (*hole + kPage - 1) / kPage * kPage) : end;
  }
  return missing;
}

Errc find_data_ranges(int fd, std::uint64_t from, std::size_t max_ranges, BytestreamCompletion& done) {
  done.complete_to = from;
  while (done.ranges.size() < max_ranges) {
    const Result<std::uint64_t> begin = next(fd, done.complete_to, SEEK_DATA);
    if (!begin && begin.code() == Errc::kNoSuchDevice) {
      done.complete_to = kMaxDatafileBytes;
      return Errc::kOk;
    }
    if (!begin && begin.code() == Errc::kNotSupported) return take_all(fd, done.complete_to, done);
    if (!begin) return begin.code();
    const Result<std::uint64_t> end = next(fd, *begin, SEEK_HOLE);
    if (!end && end.code() == Errc::kNoSuchDevice) continue;  // the source became shorter meanwhile
    if (!end) return end.code();
    if (*end > *begin) done.ranges.push_back({*begin, *end - *begin});
    done.complete_to = std::max(*end, *begin + 1);
  }
  return Errc::kOk;
}

Errc copy_range(CopySource source, int to_fd, const Extent& to) {
  for (std::uint64_t at = 0; at < to.size;) {
    const std::uint64_t from = source.offset + at;
    std::uint64_t data = to.size;  // both within `to`
    std::uint64_t data_end = to.size;
    if (source.fd >= 0) {
      const Result<std::uint64_t> begin = next(source.fd, from, SEEK_DATA);
      if (!begin && begin.code() != Errc::kNoSuchDevice && begin.code() != Errc::kNotSupported) return begin.code();
      if (begin) data = std::min(to.size, *begin - source.offset);
      if (!begin && begin.code() == Errc::kNotSupported) data = at;
      const Result<std::uint64_t> end = next(source.fd, source.offset + data, SEEK_HOLE);
      if (end) data_end = std::min(to.size, *end - source.offset);
    }
    Errc status = make_hole(to_fd, {to.offset + at, data - at});
    if (status == Errc::kOk && data_end > data)
      status = copy_data({source.fd, source.offset + data}, to_fd, {to.offset + data, data_end - data});
    if (status != Errc::kOk) return status;
    at = std::max(data_end, at + 1);
  }
  return to.size == 0 ? Errc::kOk : reach(to_fd, to.offset + to.size);
}

}  // namespace spate::trove
