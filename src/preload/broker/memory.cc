// SPDX-License-Identifier: Apache-2.0
#include "preload/broker/memory.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <string>

#include "preload/raw.h"

namespace spate::preload {
namespace {

/// Without these seals another process could truncate the file under a mapping (SIGBUS). With F_SEAL_SEAL nobody can
/// add F_SEAL_WRITE.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr unsigned kMode = 0600;
constexpr unsigned kOthers = 0077;

bool known(int descriptor, struct statx& st) {
  constexpr int kHow = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
  return !failed(raw(SYS_statx, descriptor, "", kHow, STATX_INO | STATX_TYPE, &st));
}

dev_t device_of(const struct statx& st) { return makedev(st.stx_dev_major, st.stx_dev_minor); }

/// All memfds of a machine lie on one device, which nobody can mount.
dev_t memory_device() {
  static const dev_t device = [] {
    const long memfd = raw(SYS_memfd_create, "", MFD_CLOEXEC);
    struct statx st{};
    const bool found = !failed(memfd) && known(static_cast<int>(memfd), st);
    if (!failed(memfd)) raw(SYS_close, memfd);
    return found ? device_of(st) : dev_t{0};
  }();
  return device;
}

}  // namespace

MemoryIdentity identity_of(int descriptor) {
  struct statx st{};
  if (descriptor < 0 || !known(descriptor, st)) return {};
  return {device_of(st), st.stx_ino};
}

long make_memory(const char* name, std::size_t size) {
  const long memfd = raw(SYS_memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (failed(memfd)) return memfd;
  long done = raw(SYS_fchmod, memfd, kMode);
  if (!failed(done)) done = raw(SYS_ftruncate, memfd, size);
  if (!failed(done)) done = raw(SYS_fcntl, memfd, F_ADD_SEALS, kSeals);
  if (!failed(done)) return memfd;
  raw(SYS_close, memfd);
  return done;
}

Result<UniqueFd> open_memory(int descriptor, int access) {
  struct statx st{};
  const bool candidate = known(descriptor, st) && S_ISREG(st.stx_mode) && device_of(st) == memory_device();
  if (!candidate) return Errc::kInvalidArgument;
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const long opened = raw(SYS_open, link.c_str(), access | O_CLOEXEC);
  if (failed(opened)) return Error(Errc::kInvalidArgument, "open a descriptor's state");
  UniqueFd memory(static_cast<int>(opened));
  struct stat owner{};
  const long seals = raw(SYS_fcntl, memory.get(), F_GET_SEALS);
  const bool own = !failed(raw(SYS_fstat, memory.get(), &owner)) &&
                   owner.st_uid == static_cast<uid_t>(raw(SYS_geteuid)) && (owner.st_mode & kOthers) == 0;
  if (!own || failed(seals) || (seals & kSeals) != kSeals) return Errc::kInvalidArgument;
  return memory;
}

}  // namespace spate::preload
