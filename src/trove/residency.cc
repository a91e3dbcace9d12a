// SPDX-License-Identifier: Apache-2.0
#include "trove/residency.h"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/unique_fd.h"

namespace spate::trove {
namespace {

#ifdef SYS_cachestat
constexpr long kCachestat = SYS_cachestat;
#else
constexpr long kCachestat = 451;  // the same number on every architecture; glibc 2.36 does not know it yet
#endif

// As in linux/mman.h since 6.5.
struct CachestatRange {
  std::uint64_t offset;
  std::uint64_t size;
};
struct Cachestat {
  std::uint64_t cached;
  std::uint64_t dirty;
  std::uint64_t under_write_back;
  std::uint64_t evicted;
  std::uint64_t recently_evicted;
};

std::uint64_t page_bytes() {
  static const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

bool is_resident(int fd, std::span<const Extent> extents, std::atomic<bool>& known) {
  struct stat st{};
  if (!known.load(std::memory_order_relaxed) || ::fstat(fd, &st) != 0) return false;
  // A block device has no size here; a request's ranges lie within it.
  const std::uint64_t size = S_ISBLK(st.st_mode) ? kMaxDatafileBytes : static_cast<std::uint64_t>(st.st_size);
  const std::uint64_t page = page_bytes();
  for (const Extent& extent : extents) {
    if (extent.size == 0 || extent.offset >= size) continue;
    const std::uint64_t end = std::min(extent.offset + extent.size, size);
    const std::uint64_t pages = (end - 1) / page - extent.offset / page + 1;
    CachestatRange range{extent.offset, end - extent.offset};
    Cachestat answer{};
    if (::syscall(kCachestat, fd, &range, &answer, 0U) != 0) {
      known.store(false, std::memory_order_relaxed);
      return false;
    }
    // The page cache may hold more than the ranges (large folios). It never holds less if all of them are there.
    if (answer.cached < pages) return false;
  }
  return true;
}

Errc count_resident(int fd, std::span<const Extent> extents, std::uint64_t& bytes) {
  bytes = 0;
  for (const Extent& extent : extents) {
    if (extent.size == 0) continue;
    CachestatRange range{extent.offset, extent.size};
    Cachestat answer{};
    if (::syscall(kCachestat, fd, &range, &answer, 0U) != 0) return Errc::kNotSupported;
    bytes += std::min(extent.size, answer.cached * page_bytes());
  }
  return Errc::kOk;
}

Errc make_resident(int fd, std::span<const Extent> extents) {
  // A file in memory usually is resident, and asking is far cheaper than reading each page.
  static std::atomic<bool> cachestat_known{true};
  if (is_resident(fd, extents, cachestat_known)) return Errc::kOk;
  for (const Extent& extent : extents) {  // all at once, so that the device sees them together
    if (extent.size == 0) continue;
    ::posix_fadvise(fd, static_cast<off_t>(extent.offset), static_cast<off_t>(extent.size), POSIX_FADV_WILLNEED);
  }
  const UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (!null) return errc_from_errno(errno);
  for (const Extent& extent : extents) {
    auto offset = static_cast<off_t>(extent.offset);
    std::uint64_t left = extent.size;
    while (left > 0) {
      // sendfile() to /dev/null waits for each page, as a later sendfile() to a socket would, and copies nothing.
      const ssize_t n = ::sendfile(null.get(), fd, &offset, std::min<std::uint64_t>(left, 1U << 30U));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errc_from_errno(errno);
      if (n == 0) break;
      left -= static_cast<std::uint64_t>(n);
    }
  }
  return Errc::kOk;
}

}  // namespace spate::trove
