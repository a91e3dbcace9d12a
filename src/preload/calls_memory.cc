// SPDX-License-Identifier: Apache-2.0
// mmap of a file: its bytes, read into memory of the process's own.
#include <fcntl.h>
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
    if (*got == 0) break;  // beyond the end of the file: zeros
    filled += static_cast<std::size_t>(*got);
  }
  return 0;
}

/// Private mappings, and shared ones that are only read; what others write later is not seen. A mapping that the file
/// would be written through: ENODEV, as file systems say that have none.
Reply mmap(Frame& f) {
  const DescriptionRef d = description_of(fd(f, 4));
  if (d == nullptr) return kToKernel;
  const auto size = static_cast<std::size_t>(f.word[1]);
  const int protection = fd(f, 2);
  const int flags = fd(f, 3);
  const int kind = flags & MAP_TYPE;
  if ((flags & MAP_ANONYMOUS) != 0) return kToKernel;
  if (d->is_place()) return minus(d->type() == FileType::kDirectory ? ENODEV : EBADF);
  if ((d->flags() & O_ACCMODE) == O_WRONLY) return minus(EACCES);
  if (kind != MAP_PRIVATE && (protection & PROT_WRITE) != 0)
    return minus((d->flags() & O_ACCMODE) == O_RDONLY ? EACCES : ENODEV);
  if (size == 0 || f.word[5] < 0 || f.word[5] % 4096 != 0) return minus(EINVAL);
  const int kept = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_32BIT | MAP_NORESERVE);
  const long made = raw(SYS_mmap, f.word[0], size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | kept, -1, 0);
  if (failed(made)) return made;
  const Reply filled = fill(*d, made, size, static_cast<std::uint64_t>(f.word[5]));
  const long protected_now = *filled < 0 ? *filled : raw(SYS_mprotect, made, size, protection);
  if (!failed(protected_now)) return made;
  raw(SYS_munmap, made, size);
  return protected_now;
}

}  // namespace

Handler memory_handler(long number) { return number == SYS_mmap ? mmap : nullptr; }

}  // namespace spate::preload
