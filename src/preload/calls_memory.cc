// SPDX-License-Identifier: Apache-2.0
// mmap of a file: reads its bytes into memory of the process.
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>

#include "preload/calls.h"

namespace spate::preload {
namespace {

Reply fill(Description& d, long memory, std::size_t size, std::uint64_t offset) {
  std::size_t filled = 0;
  while (filled < size) {
    const MutableByteView room(reinterpret_cast<std::byte*>(memory) + filled,
                               size - filled);  // NOLINT(performance-no-int-to-ptr)
    const std::uint64_t at = offset + filled;
    const Reply got = read_from(d, std::span(&room, 1), &at);
    if (*got < 0) return got;
    if (*got == 0) break;  // beyond the end of the file the memory stays zero
    filled += static_cast<std::size_t>(*got);
  }
  return 0;
}

struct MapParams {
  long address;
  std::size_t size;
  int protection;
  int flags;  // the flags to pass to the kernel
  std::uint64_t offset;
};

/// Maps memory that can be written.
long map_privately(Description& d, const MapParams& params) {
  const long made = raw(SYS_mmap, params.address, params.size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | params.flags, -1, 0);
  if (failed(made)) return made;
  const Reply filled = fill(d, made, params.size, params.offset);
  const long protected_now = *filled < 0 ? *filled : raw(SYS_mprotect, made, params.size, params.protection);
  if (!failed(protected_now)) return made;
  raw(SYS_munmap, made, params.size);
  return protected_now;
}

/// Fills the memory behind a descriptor, and returns another descriptor that can only read it.
long fill_and_seal(Description& d, long memfd, const MapParams& params) {
  const long sized = raw(SYS_ftruncate, memfd, params.size);
  if (failed(sized)) return sized;
  const long memory = raw(SYS_mmap, 0, params.size, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
  if (failed(memory)) return memory;
  const Reply filled = fill(d, memory, params.size, params.offset);
  raw(SYS_munmap, memory, params.size);
  if (*filled < 0) return *filled;
  const std::string link = "/proc/self/fd/" + std::to_string(memfd);
  return raw(SYS_open, link.c_str(), O_RDONLY | O_CLOEXEC);
}

/// Maps memory that mprotect(2) cannot make writable, because writes to it would never reach the file.
long map_for_reading(Description& d, const MapParams& params) {
  const long memfd = raw(SYS_memfd_create, "spate-map", MFD_CLOEXEC);
  if (failed(memfd)) return memfd;
  const long reader = fill_and_seal(d, memfd, params);
  raw(SYS_close, memfd);
  if (failed(reader)) return reader;
  const long made = raw(SYS_mmap, params.address, params.size, params.protection, MAP_SHARED | params.flags, reader, 0);
  raw(SYS_close, reader);
  return made;
}

/// Supports private mappings, and shared ones that are only read. They do not show later writes. A shared writable
/// mapping fails with ENODEV, as on file systems that cannot map files.
Reply mmap(Frame& f) {
  const DescriptionRef d = description_of(fd(f, 4));
  if (d == nullptr) return kToKernel;
  const int flags = fd(f, 3);
  const int kind = flags & MAP_TYPE;
  if ((flags & MAP_ANONYMOUS) != 0) return kToKernel;
  constexpr int kPassedOn = MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_32BIT | MAP_NORESERVE;
  const MapParams params{f.word[0], static_cast<std::size_t>(f.word[1]), fd(f, 2), flags & kPassedOn,
                         static_cast<std::uint64_t>(f.word[5])};
  if (d->is_place()) return minus(d->type() == FileType::kDirectory ? ENODEV : EBADF);
  if ((d->flags() & O_ACCMODE) == O_WRONLY) return minus(EACCES);
  if (kind != MAP_PRIVATE && (params.protection & PROT_WRITE) != 0)
    return minus((d->flags() & O_ACCMODE) == O_RDONLY ? EACCES : ENODEV);
  if (params.size == 0 || f.word[5] < 0 || f.word[5] % 4096 != 0) return minus(EINVAL);
  return kind == MAP_PRIVATE ? map_privately(*d, params) : map_for_reading(*d, params);
}

}  // namespace

Handler memory_handler(long number) { return number == SYS_mmap ? mmap : nullptr; }

}  // namespace spate::preload
