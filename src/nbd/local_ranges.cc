// SPDX-License-Identifier: Apache-2.0
#include "nbd/local_ranges.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "nbd/protocol.h"

namespace spate::nbd {
namespace {

/// Whether the error means that the file system or device lacks the call.
bool unsupported(int error) {
  return error == EOPNOTSUPP || error == ENOSYS || error == ENOTTY || error == EINVAL || error == ENODEV;
}

int allocate(int fd, int mode, Extent range) {
  int failed = 0;
  do {
    failed = ::fallocate(fd, mode, static_cast<off_t>(range.offset), static_cast<off_t>(range.size));
  } while (failed != 0 && errno == EINTR);
  return failed == 0 ? 0 : errno;
}

/// The part of the range that is whole sectors; its size may be 0.
Extent whole_sectors(const LocalFile& file, Extent range) {
  const std::uint64_t begin = (range.offset + file.sector - 1) / file.sector * file.sector;
  const std::uint64_t end = (range.offset + range.size) / file.sector * file.sector;
  return {begin, end > begin ? end - begin : 0};
}

/// Returns 0 or errno. For an error that unsupported() accepts, write zeros instead.
int zero_by_call(const LocalFile& file, Extent range, ZeroParams params) {
  constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  if (range.size == 0) return EOPNOTSUPP;
  if (!params.keep_allocated) return allocate(file.fd, kPunch, range);
  // If a device has no such command, the kernel writes the zeros itself.
  if (file.block_device && params.only_if_fast) return EOPNOTSUPP;
  int error = allocate(file.fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, range);
  if (!unsupported(error) || file.block_device) return error;
  error = allocate(file.fd, kPunch, range);
  return error != 0 ? error : allocate(file.fd, FALLOC_FL_KEEP_SIZE, range);
}

Result<void> write_zeros(int fd, Extent range) {
  static const std::array<std::byte, 256UL * 1024> zeros{};
  while (range.size > 0) {
    const std::uint64_t n = std::min<std::uint64_t>(range.size, zeros.size());
    SPATE_TRY(std::ignore, write_all(fd, range.offset, ByteView(zeros).first(static_cast<std::size_t>(n))));
    range.offset += n;
    range.size -= n;
  }
  return {};
}

}  // namespace

Result<void> read_all(int fd, std::uint64_t offset, MutableByteView memory, int flags) {
  const bool may_wait = (flags & RWF_NOWAIT) == 0;
  while (!memory.empty()) {
    const iovec piece{memory.data(), memory.size()};
    const ssize_t n = ::preadv2(fd, &piece, 1, static_cast<off_t>(offset), flags);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && !may_wait && (errno == EAGAIN || errno == EOPNOTSUPP)) return Errc::kTryAgain;
    if (n < 0) return errc_from_errno(errno);
    if (n == 0) return Errc::kIoError;
    if (static_cast<std::size_t>(n) < memory.size() && !may_wait) return Errc::kTryAgain;
    memory = memory.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

Result<void> write_all(int fd, std::uint64_t offset, ByteView memory) {
  while (!memory.empty()) {
    const ssize_t n = ::pwrite(fd, memory.data(), memory.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errc_from_errno(errno);
    if (n == 0) return Errc::kIoError;
    memory = memory.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

Result<void> write_from_pipe(int fd, std::uint64_t offset, int pipe, std::size_t size) {
  auto to = static_cast<off64_t>(offset);
  while (size > 0) {
    const ssize_t n = ::splice(pipe, nullptr, fd, &to, size, SPLICE_F_MOVE);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errc_from_errno(errno);
    if (n == 0) return Errc::kIoError;
    size -= static_cast<std::size_t>(n);
  }
  return {};
}

Result<void> discard(const LocalFile& file, Extent range) {
  if (range.size == 0) return {};
  int error = 0;
  if (file.block_device) {
    const Extent whole = whole_sectors(file, range);
    const std::array<std::uint64_t, 2> words{whole.offset, whole.size};
    if (whole.size > 0 && ::ioctl(file.fd, BLKDISCARD, words.data()) != 0) error = errno;
  } else {
    error = allocate(file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, range);
  }
  if (error == 0 || unsupported(error)) return {};
  return errc_from_errno(error);
}

Result<void> zero_range(const LocalFile& file, Extent range, ZeroParams params) {
  if (range.size == 0) return {};
  const Extent whole = whole_sectors(file, range);
  const int error = zero_by_call(file, whole, params);
  if (error == 0) {
    const std::uint64_t end = whole.offset + whole.size;
    SPATE_TRY(std::ignore, write_zeros(file.fd, {range.offset, whole.offset - range.offset}));
    return write_zeros(file.fd, {end, range.offset + range.size - end});
  }
  if (!unsupported(error)) return errc_from_errno(error);
  if (params.only_if_fast) return Errc::kNotSupported;
  return write_zeros(file.fd, range);
}

std::vector<StatusExtent> map_holes(const LocalFile& file, Extent range, std::size_t max) {
  std::vector<StatusExtent> found;
  const auto end = static_cast<off_t>(range.offset + range.size);
  auto at = static_cast<off_t>(range.offset);
  while (at < end && found.size() < max && !file.block_device) {
    off_t data = ::lseek(file.fd, at, SEEK_DATA);
    if (data < 0 && errno != ENXIO) break;
    if (data < 0) data = end;  // the hole reaches to the file's end
    if (data > at) {
      const off_t stop = std::min(data, end);
      found.push_back({static_cast<std::uint64_t>(stop - at), kHole | kZero});
      at = stop;
      continue;
    }
    const off_t hole = ::lseek(file.fd, at, SEEK_HOLE);
    if (hole <= at) break;
    const off_t stop = std::min(hole, end);
    found.push_back({static_cast<std::uint64_t>(stop - at), 0});
    at = stop;
  }
  if (found.empty()) found.push_back({range.size, 0});
  return found;
}

}  // namespace spate::nbd
