// SPDX-License-Identifier: Apache-2.0
#include "client/session/inherited_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <string>

#include "base/check.h"

namespace spate::client {
namespace {

/// Returns the size of the memory.
Result<std::size_t> make_all_pages(int fd, std::size_t bytes, const std::string& what) {
  struct stat state{};
  if (::fstat(fd, &state) != 0) return errno_error(errno, what);
  if (state.st_size != 0) return static_cast<std::size_t>(state.st_size);
  const int failed = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  if (failed != 0) return errno_error(failed, what);
  std::ignore = ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);  // not for memory that allows no seals
  return bytes;
}

}  // namespace

Result<InheritedMemory> InheritedMemory::open(int fd, std::size_t bytes, std::size_t least, std::string_view what) {
  SPATE_CHECK(bytes >= least && least >= sizeof(MemoryMark));
  std::size_t size = bytes;
  if (fd >= 0) {
    SPATE_TRY(size, make_all_pages(fd, bytes, std::string(what)));
  }
  if (size < least) return of_another_version(what);
  const int flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (at == MAP_FAILED) return errno_error(errno, "map the " + std::string(what));
  std::ignore = ::madvise(at, size, MADV_DONTDUMP);
  return InheritedMemory(std::unique_ptr<std::byte, Unmap>(static_cast<std::byte*>(at), Unmap{size}));
}

void InheritedMemory::set_mark(MemoryMark mark) {
  auto& there = *reinterpret_cast<MemoryMark*>(data());
  there.version = mark.version;
  std::atomic_ref(there.magic).store(mark.magic, std::memory_order_release);
}

Error InheritedMemory::of_another_version(std::string_view what) {
  return Error(Errc::kVersionMismatch, "the " + std::string(what) + " is of another version of Spate");
}

void InheritedMemory::Unmap::operator()(std::byte* at) const { ::munmap(at, bytes); }

}  // namespace spate::client
