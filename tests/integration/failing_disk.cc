// SPDX-License-Identifier: Apache-2.0
// A library to be preloaded into spated: a disk that fails. Reads and writes of files below the folder
// SPATE_TEST_FAILING fail with EIO while the file that SPATE_TEST_FAULTS names contains "read" or "write".
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

template <typename Function>
Function next_of(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

bool is_ordered(const char* fault) {
  const char* const file = std::getenv("SPATE_TEST_FAULTS");
  if (file == nullptr) return false;
  const int fd = ::open(file, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char text[64] = {};
  static const auto plain_read = next_of<ssize_t (*)(int, void*, size_t)>("read");
  const ssize_t got = plain_read(fd, text, sizeof text - 1);
  ::close(fd);
  return got > 0 && std::strstr(text, fault) != nullptr;
}

bool fails(int fd, const char* fault) {
  const char* const folder = std::getenv("SPATE_TEST_FAILING");
  if (folder == nullptr) return false;
  char link[64];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  char path[PATH_MAX] = {};
  const ssize_t size = ::readlink(link, path, sizeof path - 1);
  if (size <= 0 || std::strncmp(path, folder, std::strlen(folder)) != 0 || !is_ordered(fault)) return false;
  errno = EIO;
  return true;
}

}  // namespace

#define SPATE_READS(name, parameters, arguments)                    \
  extern "C" ssize_t name parameters {                              \
    static const auto next = next_of<ssize_t(*) parameters>(#name); \
    return fails(fd, "read") ? -1 : next arguments;                 \
  }
#define SPATE_WRITES(name, parameters, arguments)                   \
  extern "C" ssize_t name parameters {                              \
    static const auto next = next_of<ssize_t(*) parameters>(#name); \
    return fails(fd, "write") ? -1 : next arguments;                \
  }

SPATE_READS(pread, (int fd, void* to, size_t size, off_t at), (fd, to, size, at))
SPATE_READS(preadv, (int fd, const iovec* to, int count, off_t at), (fd, to, count, at))
SPATE_READS(preadv2, (int fd, const iovec* to, int count, off_t at, int flags), (fd, to, count, at, flags))
SPATE_WRITES(pwrite, (int fd, const void* from, size_t size, off_t at), (fd, from, size, at))
SPATE_WRITES(pwritev, (int fd, const iovec* from, int count, off_t at), (fd, from, count, at))
SPATE_WRITES(pwritev2, (int fd, const iovec* from, int count, off_t at, int flags), (fd, from, count, at, flags))

extern "C" ssize_t sendfile(int to, int fd, off_t* at, size_t size) {
  static const auto next = next_of<ssize_t (*)(int, int, off_t*, size_t)>("sendfile");
  return fails(fd, "read") ? -1 : next(to, fd, at, size);
}
