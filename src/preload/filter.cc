// SPDX-License-Identifier: Apache-2.0
#include "preload/filter.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include <initializer_list>

#include "preload/raw.h"

namespace spate::preload {

FrontState front_state;
__thread ThreadState thread_state;

namespace {

/// The arguments of a call that name a file.
enum Kind : std::uint8_t {
  kNone,
  kFd,          // descriptor, ...
  kFdFd,        // descriptor, descriptor
  kFdSkipFd,    // descriptor, x, descriptor
  kFd5,         // x, x, x, x, descriptor
  kPath,        // path, ...
  kPathPath,    // path, path
  kTextPath,    // x, path
  kAt,          // descriptor, path
  kAtHow,       // openat2: descriptor, path, how
  kAtAt,        // descriptor, path, descriptor, path
  kTextAt,      // x, descriptor, path
  kControlFd,   // epoll_ctl: x, x, descriptor
  kReceive,     // recvmsg: a message with room for descriptors
  kReceiveAll,  // recvmmsg: several such messages
  kSend,        // sendmsg: a message with descriptors, or several
  kPoll,        // pollfd[], count
  kWhenInside,  // only while the working directory is in Spate
  kWhenOurs,    // only while some descriptor is marked
  kChdir,       // path
  kFchdir,      // descriptor
  kUmask,
  kExec,     // path; it may be necessary to end the client first
  kExecAt,   // descriptor, path
  kMakesFd,  // returns a descriptor, which is hidden if the library itself made the call
  kForks,    // clone(flags)
  kForks3    // clone3(struct)
};

constexpr int kCalls = 512;

struct Kinds {
  std::uint8_t of[kCalls] = {};
  constexpr void set(Kind kind, std::initializer_list<int> numbers) {
    for (const int number : numbers) of[number] = kind;
  }
  constexpr Kinds() {
    set(kFd, {SYS_read,      SYS_write,      SYS_pread64,   SYS_pwrite64,        SYS_readv,        SYS_writev,
              SYS_preadv,    SYS_pwritev,    SYS_preadv2,   SYS_pwritev2,        SYS_close,        SYS_lseek,
              SYS_fstat,     SYS_getdents64, SYS_ftruncate, SYS_fsync,           SYS_fdatasync,    SYS_syncfs,
              SYS_fallocate, SYS_fadvise64,  SYS_readahead, SYS_sync_file_range, SYS_fchmod,       SYS_fchown,
              SYS_fstatfs,   SYS_fgetxattr,  SYS_fsetxattr, SYS_flistxattr,      SYS_fremovexattr, SYS_fcntl,
              SYS_dup,       SYS_ioctl,      SYS_flock,     SYS_vmsplice});
    set(kFdFd, {SYS_dup2, SYS_dup3, SYS_sendfile, SYS_tee});
    set(kFdSkipFd, {SYS_copy_file_range, SYS_splice});
    set(kFd5, {SYS_mmap});
    set(kPath,
        {SYS_open,      SYS_creat,      SYS_stat,        SYS_lstat,       SYS_access,    SYS_readlink, SYS_unlink,
         SYS_mkdir,     SYS_rmdir,      SYS_truncate,    SYS_chmod,       SYS_chown,     SYS_lchown,   SYS_utime,
         SYS_utimes,    SYS_mknod,      SYS_statfs,      SYS_getxattr,    SYS_lgetxattr, SYS_setxattr, SYS_lsetxattr,
         SYS_listxattr, SYS_llistxattr, SYS_removexattr, SYS_lremovexattr});
    set(kPathPath, {SYS_rename, SYS_link});
    set(kTextPath, {SYS_symlink, SYS_inotify_add_watch});
    set(kAt,
        {SYS_openat, SYS_newfstatat, SYS_statx, SYS_faccessat, SYS_faccessat2, SYS_readlinkat, SYS_unlinkat,
         SYS_mkdirat, SYS_fchmodat, SYS_fchownat, SYS_utimensat, SYS_futimesat, SYS_mknodat, SYS_name_to_handle_at});
    set(kAtHow, {SYS_openat2});
    set(kAtAt, {SYS_renameat, SYS_renameat2, SYS_linkat});
    set(kTextAt, {SYS_symlinkat});
    set(kControlFd, {SYS_epoll_ctl});
    set(kReceive, {SYS_recvmsg});
    set(kReceiveAll, {SYS_recvmmsg});
    set(kSend, {SYS_sendmsg, SYS_sendmmsg});
    set(kPoll, {SYS_poll, SYS_ppoll});
    set(kWhenInside, {SYS_getcwd});
    set(kWhenOurs, {SYS_close_range, SYS_select, SYS_pselect6, SYS_exit_group});
    set(kExec, {SYS_execve});
    set(kExecAt, {SYS_execveat});
    set(kChdir, {SYS_chdir});
    set(kFchdir, {SYS_fchdir});
    set(kUmask, {SYS_umask});
    set(kMakesFd, {SYS_socket, SYS_accept4, SYS_epoll_create1, SYS_eventfd2, SYS_timerfd_create, SYS_memfd_create,
                   SYS_io_uring_setup});
    set(kForks, {SYS_clone, SYS_vfork});
    set(kForks3, {SYS_clone3});
  }
};

constexpr Kinds kKinds;

bool special(long descriptor) {
  const auto number = static_cast<unsigned>(descriptor);
  return number < static_cast<unsigned>(kMaxDescriptors) && front_state.marks[number] != kForeign;
}

bool starts_with(const char* text, const char* prefix) {
  while (*prefix != '\0') {
    if (*text++ != *prefix++) return false;
  }
  return true;
}

/// Whether the path cannot be compared as it is: it contains "//", "/./" or "/../".
bool is_crooked(const char* path) {
  for (; *path != '\0'; ++path) {
    if (path[0] != '/') continue;
    const char* const next = path + (path[1] == '.' ? (path[2] == '.' ? 3 : 2) : 1);
    if (path[1] == '/' || (next > path + 1 && (*next == '/' || *next == '\0'))) return true;
  }
  return false;
}

bool below_a_mount(const char* path) {
  for (int i = 0; i < front_state.mount_count; ++i) {
    const MountPoint& mount = front_state.mounts[i];
    if (path[1] != mount.prefix[1] || !starts_with(path, mount.prefix)) continue;
    const char next = path[mount.prefix_size];
    if (next == '/' || next == '\0') return true;
  }
  return false;
}

/// Removes empty, "." and ".." components from the beginning of `path`, as far as the comparison needs it, and compares
/// the result.
bool is_below_when_straight(const char* path) {
  constexpr int kRoom = sizeof(MountPoint::prefix) * 2;
  char straight[kRoom + 2] = "/";
  int size = 0;  // length of `straight`
  while (*path != '\0' && size < kRoom) {
    while (*path == '/') ++path;
    int length = 0;
    while (path[length] != '\0' && path[length] != '/') ++length;
    if (length == 2 && path[0] == '.' && path[1] == '.') {
      while (size > 0 && straight[--size] != '/') {
      }
    } else if (length > 0 && !(length == 1 && path[0] == '.')) {
      straight[size++] = '/';
      for (int i = 0; i < length && size < kRoom; ++i) straight[size++] = path[i];
    }
    path += length;
  }
  straight[size] = '\0';
  return size > 1 && below_a_mount(straight);
}

bool same(const char* text, const char* other, long size) {
  for (long i = 0; i < size; ++i) {
    if (text[i] != other[i]) return false;
  }
  return true;
}

/// Whether `directory` (AT_FDCWD: the working one) is the first `size` bytes of a mount's prefix; 0: the root.
bool is_directory(long directory, const MountPoint& mount, long size) {
  char text[sizeof(MountPoint::prefix) + 1];
  char link[32] = "/proc/self/fd/";
  long length = 0;
  if (static_cast<int>(directory) == AT_FDCWD) {
    length = raw(SYS_getcwd, text, sizeof text) - 1;  // without the final '\0', which the kernel counts
  } else {
    if (directory < 0) return false;
    char digits[16];
    int count = 0;
    for (unsigned rest = static_cast<unsigned>(directory); count == 0 || rest > 0; rest /= 10)
      digits[count++] = static_cast<char>('0' + rest % 10);
    for (int at = 14; count > 0; ++at) link[at] = digits[--count];
    length = raw(SYS_readlink, link, text, sizeof text);
  }
  return size == 0 ? length == 1 && text[0] == '/' : length == size && same(text, mount.prefix, size);
}

/// Whether a relative path leads from an ordinary directory above a mount into the mount, such as "spate/x" from "/".
/// Programs that walk a path component by component use such paths.
bool leads_in(long directory, const char* path) {
  while (path[0] == '.' && path[1] == '/') path += 2;
  for (int i = 0; i < front_state.mount_count; ++i) {
    const MountPoint& mount = front_state.mounts[i];
    for (std::size_t at = 0; at < mount.prefix_size; ++at) {
      if (mount.prefix[at] != '/' || path[0] != mount.prefix[at + 1] || !starts_with(path, mount.prefix + at + 1))
        continue;
      const char next = path[mount.prefix_size - at - 1];
      if ((next == '/' || next == '\0') && is_directory(directory, mount, static_cast<long>(at))) return true;
    }
  }
  return false;
}

/// Whether the path may stand for a descriptor, as "/dev/stdin" or "/proc/1234/fd/3". The back needs memory to find out
/// for which. So it must not get the file below /proc that malloc() opens while it holds the lock of a heap.
bool may_be_a_descriptor(const char* path) {
  if (starts_with(path, "/dev/")) return true;
  if (!starts_with(path, "/proc/")) return false;
  for (; *path != '\0'; ++path) {
    if (starts_with(path, "/fd/")) return true;
  }
  return false;
}

/// Whether the path of some process's descriptor leads to a file of Spate.
bool leads_to_ours(const char* path) {
  constexpr char kMemory[] = "/memfd:";
  if (!starts_with(path, "/proc/")) return false;
  char text[32];
  const long size = raw(SYS_readlink, path, text, sizeof text - 1);
  if (failed(size)) return false;
  text[size] = '\0';
  return starts_with(text, kMemory) && starts_with(text + sizeof kMemory - 1, kDescriptorName);
}

bool named(long path_word) {
  if (path_word >= 0 && path_word < 4096) return false;               // the kernel fails with EFAULT
  const char* const path = reinterpret_cast<const char*>(path_word);  // NOLINT(performance-no-int-to-ptr)
  if (path[0] != '/') return front_state.cwd_inside || leads_in(AT_FDCWD, path);
  if (below_a_mount(path)) return true;
  if (may_be_a_descriptor(path) && (front_state.special_descriptors > 0 || leads_to_ours(path))) return true;
  return is_crooked(path) && is_below_when_straight(path);
}

bool named_at(long directory, long path_word) {
  if (path_word >= 0 && path_word < 4096) return special(directory);  // a null path stands for the descriptor itself
  const char* const path = reinterpret_cast<const char*>(path_word);  // NOLINT(performance-no-int-to-ptr)
  if (path[0] == '/' || static_cast<int>(directory) == AT_FDCWD) return named(path_word);
  return special(directory) || leads_in(directory, path);
}

/// With RESOLVE_IN_ROOT, absolute paths begin at the directory, too.
bool below_directory(long directory) {
  return special(directory) || (static_cast<int>(directory) == AT_FDCWD && front_state.cwd_inside);
}

bool polls(const Frame& frame) {
  const auto* const fds = reinterpret_cast<const pollfd*>(frame.word[0]);  // NOLINT(performance-no-int-to-ptr)
  for (unsigned i = 0; i < static_cast<unsigned>(frame.word[1]); ++i) {
    if (fds[i].fd >= 0 && special(fds[i].fd)) return true;
  }
  return false;
}

/// Notes that a child is being made, and whether it shares memory with its parent until the parent runs again; see
/// in_vfork_child().
void note_fork(std::uint64_t flags) {
  constexpr std::uint64_t kShares = CLONE_VM | CLONE_VFORK;
  in_vfork_child();  // forgets an earlier child; otherwise a child of fork() would believe that it is that child
  if ((flags & CLONE_VM) == 0 || (flags & CLONE_VFORK) != 0)
    __atomic_fetch_add(&front_state.forks, 1, __ATOMIC_RELAXED);
  if ((flags & kShares) == kShares) thread_state.vfork_parent = raw(SYS_getpid);
}

/// Whether an exec ends a client of this process. A child of vfork() has no client.
bool ends_a_client() { return front_state.special_descriptors > 0 && !in_vfork_child(); }

bool decide(const Frame& f) {
  const long* const w = f.word;
  switch (kKinds.of[f.number]) {
    case kFd: return special(w[0]);
    case kFdFd: return special(w[0]) || special(w[1]);
    case kFdSkipFd: return special(w[0]) || special(w[2]);
    case kFd5: return special(w[4]);
    case kPath: return named(w[0]);
    case kPathPath: return named(w[0]) || named(w[1]);
    case kTextPath: return named(w[1]);
    case kAt: return named_at(w[0], w[1]);
    case kAtHow: return named_at(w[0], w[1]) || below_directory(w[0]);
    case kAtAt: return named_at(w[0], w[1]) || named_at(w[2], w[3]);
    case kTextAt: return named_at(w[1], w[2]);
    case kControlFd: return special(w[2]);
    case kReceive:
      return w[1] != 0 &&
             reinterpret_cast<const msghdr*>(w[1])->msg_control != nullptr;  // NOLINT(performance-no-int-to-ptr)
    case kReceiveAll: return w[1] != 0;
    case kSend: return front_state.special_descriptors > 0 && w[1] != 0;
    case kPoll: return front_state.special_descriptors > 0 && polls(f);
    case kWhenInside: return front_state.cwd_inside;
    case kExec: return named(w[0]) || ends_a_client();
    case kExecAt: return named_at(w[0], w[1]) || ends_a_client();
    case kWhenOurs: return front_state.special_descriptors > 0;
    case kChdir: return front_state.cwd_inside || named(w[0]);
    case kFchdir: return front_state.cwd_inside || special(w[0]);
    case kUmask: front_state.umask = static_cast<int>(w[0] & 0777); return false;
    case kForks:
      note_fork(f.number == SYS_vfork ? CLONE_VM | CLONE_VFORK : static_cast<std::uint64_t>(w[0]));
      return false;
    case kForks3:
      note_fork(*reinterpret_cast<const std::uint64_t*>(w[0]));
      return false;  // NOLINT(performance-no-int-to-ptr)
    default: return false;
  }
}

}  // namespace

bool knows_call(unsigned long number) {
  return number < static_cast<unsigned long>(kCalls) && kKinds.of[number] != kNone;
}

bool in_vfork_child() {
  if (thread_state.vfork_parent == 0) return false;
  if (raw(SYS_getpid) != thread_state.vfork_parent) return true;
  thread_state.vfork_parent = 0;  // the parent runs again
  return false;
}

extern "C" bool spate_preload_wants(Frame* frame) {
  if (static_cast<unsigned long>(frame->number) >= static_cast<unsigned long>(kCalls)) return false;
  const std::uint8_t kind = kKinds.of[frame->number];
  if (kind == kNone) return false;
  // A helper (helper.h) sends no signal when it ends, because the program does not know of it.
  if (thread_state.inside > 0 && kind == kForks && thread_state.fork_flags != 0)
    frame->word[0] = (frame->word[0] & ~CSIGNAL) | thread_state.fork_flags;
  if (thread_state.inside > 0)
    return kind == kMakesFd || kind == kReceive || frame->number == SYS_openat || frame->number == SYS_close;
  return decide(*frame);
}

}  // namespace spate::preload
