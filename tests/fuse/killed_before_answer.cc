// SPDX-License-Identifier: Apache-2.0
// A library to be preloaded into spate-mount. If the file that SPATE_TEST_KILL names is there, the process removes it
// and kills itself before the answer that makes or opens an object reaches the kernel.
#include <dlfcn.h>
#include <linux/fuse.h>
#include <sys/uio.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

namespace {

/// Whether the message is an answer with an entry, as those to create, mkdir, symlink and lookup are.
bool makes_object(const iovec* parts, int count) {
  constexpr std::size_t kCreated = sizeof(fuse_entry_out) + sizeof(fuse_open_out);
  fuse_out_header header{};
  if (count < 2 || parts[0].iov_len != sizeof(header)) return false;
  std::memcpy(&header, parts[0].iov_base, sizeof(header));
  const std::size_t size = header.len - sizeof(header);
  return header.unique != 0 && header.error == 0 && (size == kCreated || size == sizeof(fuse_entry_out));
}

}  // namespace

extern "C" ssize_t writev(int fd, const iovec* parts, int count) {
  static const auto next = reinterpret_cast<ssize_t (*)(int, const iovec*, int)>(::dlsym(RTLD_NEXT, "writev"));
  const char* const file = std::getenv("SPATE_TEST_KILL");
  if (file != nullptr && makes_object(parts, count) && ::unlink(file) == 0) std::raise(SIGKILL);
  return next(fd, parts, count);
}
