// SPDX-License-Identifier: Apache-2.0
#include "nbd/local_device.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#include <cerrno>

#include "job/off_loop.h"
#include "trove/residency.h"

namespace spate::nbd {
namespace {

std::uint64_t device_bytes(int fd) {
  std::uint64_t bytes = 0;
  return ::ioctl(fd, BLKGETSIZE64, &bytes) == 0 ? bytes : 0;
}

/// Refuses at once a device on which each request would fail.
Result<void> check_device(int fd, const std::string& path, bool read_only) {
  // The kernel opens both without an error.
  if (device_bytes(fd) == 0)
    return Error(Errc::kNotFound, path + " has no size: no medium is in it, or it is not set up");
  int write_protected = 0;
  if (!read_only && ::ioctl(fd, BLKROGET, &write_protected) == 0 && write_protected != 0)
    return Error(Errc::kReadOnly, path + " is write-protected, and can be exported read-only (-r) only");
  return {};
}

std::uint32_t sector_bytes(int fd) {
  int bytes = 0;
  return ::ioctl(fd, BLKSSZGET, &bytes) == 0 && bytes > 0 ? static_cast<std::uint32_t>(bytes) : 512;
}

}  // namespace

Result<std::unique_ptr<LocalDevice>> LocalDevice::open(const std::string& path, bool read_only, job::Executor& executor,
                                                       Workers& workers) {
  std::unique_ptr<LocalDevice> device(new LocalDevice(executor, workers));
  // Without O_NONBLOCK the open of a fifo would wait for its other end.
  device->fd_ = UniqueFd(::open(path.c_str(), (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NONBLOCK));
  if (!device->fd_) return errno_error(errno, "open " + path + (read_only ? "" : " for reading and writing"));
  struct stat st{};
  if (::fstat(device->fd_.get(), &st) != 0) return errno_error(errno, "look at " + path);
  if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
    return Error(Errc::kNotSupported, path + " is neither a file nor a block device");
  if (S_ISBLK(st.st_mode)) {
    SPATE_TRY(std::ignore, check_device(device->fd_.get(), path, read_only));
    device->file_.sector = sector_bytes(device->fd_.get());
  }
  struct statfs fs{};
  device->in_memory_ = S_ISREG(st.st_mode) && ::fstatfs(device->fd_.get(), &fs) == 0 &&
                       (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
  device->path_ = path;
  device->file_.fd = device->fd_.get();
  device->file_.block_device = S_ISBLK(st.st_mode);
  device->read_only_ = read_only;
  return device;
}

std::uint64_t LocalDevice::size() {
  if (file_.block_device) return device_bytes(file_.fd);
  struct stat st{};
  return ::fstat(file_.fd, &st) == 0 ? static_cast<std::uint64_t>(st.st_size) : 0;
}

Result<void> LocalDevice::read_now(std::uint64_t offset, MutableByteView memory) {
  return read_all(file_.fd, offset, memory, in_memory_ ? 0 : RWF_NOWAIT);
}

Result<void> LocalDevice::write_now(std::uint64_t offset, ByteView memory) {
  if (!in_memory_) return Errc::kTryAgain;  // not every file system supports buffered writes with RWF_NOWAIT
  return write_all(file_.fd, offset, memory);
}

Result<void> LocalDevice::write_pipe_now(std::uint64_t offset, int pipe, std::size_t size) {
  if (!in_memory_) return Errc::kTryAgain;
  return write_from_pipe(file_.fd, offset, pipe, size);
}

int LocalDevice::resident(const Extent& range) {
  if (in_memory_) return file_.fd;
  return has_pages() && trove::is_resident(file_.fd, std::span(&range, 1), residency_known_) ? file_.fd : -1;
}

job::Task<Result<void>> LocalDevice::read(std::uint64_t offset, MutableByteView memory) {
  const auto work = [this, offset, memory] { return read_all(file_.fd, offset, memory, 0); };
  co_return co_await job::off_loop(executor_, workers_, work);
}

job::Task<Result<void>> LocalDevice::write(std::uint64_t offset, ByteView memory) {
  const auto work = [this, offset, memory] { return write_all(file_.fd, offset, memory); };
  co_return co_await job::off_loop(executor_, workers_, work);
}

job::Task<Result<void>> LocalDevice::write_pipe(std::uint64_t offset, int pipe, std::size_t size) {
  const auto work = [this, offset, pipe, size] { return write_from_pipe(file_.fd, offset, pipe, size); };
  co_return co_await job::off_loop(executor_, workers_, work);
}

job::Task<Result<void>> LocalDevice::flush() {
  const auto work = [this]() -> Result<void> {
    if (::fdatasync(file_.fd) != 0) return errc_from_errno(errno);
    return {};
  };
  auto flushed = co_await job::off_loop(executor_, workers_, work);
  // The kernel reports a failed write-back once, and then no longer considers the pages dirty.
  if (!flushed) note_loss();
  co_return flushed;
}

job::Task<Result<void>> LocalDevice::trim(Extent range) {
  const auto work = [this, range] { return discard(file_, range); };
  co_return co_await job::off_loop(executor_, workers_, work);
}

job::Task<Result<void>> LocalDevice::zero(Extent range, ZeroParams params) {
  const auto work = [this, range, params] { return zero_range(file_, range, params); };
  co_return co_await job::off_loop(executor_, workers_, work);
}

job::Task<Result<void>> LocalDevice::make_resident(Extent range) {
  const auto work = [this, range]() -> Result<void> { return trove::make_resident(file_.fd, std::span(&range, 1)); };
  co_return co_await job::off_loop(executor_, workers_, work);
}

job::Task<Result<std::vector<StatusExtent>>> LocalDevice::status(Extent range, std::size_t max) {
  const auto work = [this, range, max]() -> Result<std::vector<StatusExtent>> { return map_holes(file_, range, max); };
  co_return co_await job::off_loop(executor_, workers_, work);
}

job::Task<Result<void>> LocalDevice::close() { co_return Result<void>(); }

}  // namespace spate::nbd
