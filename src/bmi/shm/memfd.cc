// SPDX-License-Identifier: Apache-2.0
#include "bmi/shm/memfd.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <string>

#include "base/check.h"

namespace spate::bmi::shm {
namespace {

// MFD_NOEXEC_SEAL, since Linux 6.3. Newer kernels demand that a program sets it or its opposite; older ones refuse it.
constexpr unsigned kNoExecSeal = 8;

int memory_file(const char* purpose) {
  const int fd = ::memfd_create(purpose, MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExecSeal);
  if (fd >= 0 || errno != EINVAL) return fd;
  return ::memfd_create(purpose, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

}  // namespace

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(view_, other.view_);
  return *this;
}

Mapping::~Mapping() {
  if (!view_.empty()) SPATE_CHECK(::munmap(view_.data(), view_.size()) == 0);
}

Result<Mapping> Mapping::of(int fd, std::uint64_t size, bool writable) {
  void* address = ::mmap(nullptr, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return errno_error(errno, "map shared memory");
  Mapping mapping;
  mapping.view_ = {static_cast<std::byte*>(address), size};
  return mapping;
}

Result<UniqueFd> make_memory(const char* purpose, std::uint64_t size) {
  UniqueFd fd(memory_file(purpose));
  if (!fd) return errno_error(errno, "memfd_create");
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) return errno_error(errno, "size of shared memory");
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return errno_error(errno, "seal shared memory");
  }
  return fd;
}

Result<void> check_foreign_memory(int fd, std::uint64_t size) {
  struct statfs fs{};
  struct stat st{};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return Error(Errc::kProtocol, "shared memory that may shrink");
  if (::fstatfs(fd, &fs) != 0 || fs.f_type != TMPFS_MAGIC)
    return Error(Errc::kProtocol, "shared memory of a kind that cannot be mapped safely");
  if (::fstat(fd, &st) != 0 || static_cast<std::uint64_t>(st.st_size) < size) {
    return Error(Errc::kProtocol, "shared memory that is too small");
  }
  return {};
}

UniqueFd read_only_copy(int fd) {
  return UniqueFd(::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDONLY | O_CLOEXEC));
}

}  // namespace spate::bmi::shm
