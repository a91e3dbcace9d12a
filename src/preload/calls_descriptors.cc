// SPDX-License-Identifier: Apache-2.0
// Calls on descriptors themselves: dup, fcntl, ioctl, flock, close_range.
#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "preload/calls.h"
#include "preload/holding.h"
#include "preload/locks.h"

namespace spate::preload {
namespace {

bool is_own(long descriptor) {
  const auto number = static_cast<unsigned>(descriptor);
  return number < static_cast<unsigned>(kMaxDescriptors) && front().state->marks[number] == kOwn;
}

/// The kernel has made `to` a duplicate of `from`: updates the table.
Reply duplicated(int from, long to) {
  if (failed(to) || front().in_vfork_child()) return to;
  const DescriptionRef meant = description_of(from);
  if (meant != nullptr && to >= kMaxDescriptors) {
    raw(SYS_close, to);
    return minus(EMFILE);
  }
  std::ignore = lose(replace(static_cast<int>(to), meant));
  return to;
}

Reply dup(Frame& f) {
  if (is_own(f.word[0])) return minus(EBADF);
  return duplicated(fd(f, 0), ask_kernel(f));
}

Reply dup_to(Frame& f) {
  if (is_own(f.word[0])) return minus(EBADF);
  if (is_own(f.word[1])) return minus(EBUSY);
  if (fd(f, 0) == fd(f, 1)) return kToKernel;
  if (!front().in_vfork_child() && raw(SYS_fcntl, fd(f, 0), F_GETFD) >= 0) before_losing(fd(f, 1));
  return duplicated(fd(f, 0), ask_kernel(f));
}

Reply set_flags(Description& d, int flags) {
  d.state()->flags = static_cast<std::uint32_t>(flags & kSettableFlags);
  return 0;
}

Reply fcntl(Frame& f) {
  if (is_own(f.word[0])) return minus(EBADF);
  const DescriptionRef d = description_of(fd(f, 0));
  if (d == nullptr) return kToKernel;
  switch (fd(f, 1)) {
    case F_DUPFD:
    case F_DUPFD_CLOEXEC: return duplicated(fd(f, 0), ask_kernel(f));
    case F_GETFD:
    case F_SETFD: return kToKernel;
    case F_GETFL: return d->flags() | 0100000;  // O_LARGEFILE, which the kernel reports
    case F_SETFL: return (d->flags() & O_PATH) != 0 ? Reply(minus(EBADF)) : set_flags(*d, fd(f, 2));
    case F_GETLK:
    case F_SETLK:
    case F_SETLKW:
    case F_OFD_GETLK:
    case F_OFD_SETLK:
    case F_OFD_SETLKW: return record_lock(*d, fd(f, 0), fd(f, 1), memory<struct ::flock>(f, 2));
    default: return minus(EINVAL);
  }
}

Reply flock(Frame& f) {
  const DescriptionRef d = description_of(fd(f, 0));
  return d == nullptr ? kToKernel : whole_lock(*d, fd(f, 0), fd(f, 1));
}

Reply bytes_to_read(Description& d, int* out) {
  struct stat st{};
  const Reply known = stat_description(d, &st);
  if (*known < 0) return known;
  const auto size = static_cast<std::uint64_t>(st.st_size);
  const std::uint64_t position = std::min(d.state()->position.load(), size);
  *out = static_cast<int>(std::min<std::uint64_t>(size - position, INT32_MAX));
  return 0;
}

Reply ioctl(Frame& f) {
  if (is_own(f.word[0])) return minus(EBADF);
  const DescriptionRef d = description_of(fd(f, 0));
  if (d == nullptr) return kToKernel;
  switch (static_cast<unsigned long>(f.word[1])) {
    case FIOCLEX: return raw(SYS_fcntl, fd(f, 0), F_SETFD, FD_CLOEXEC);
    case FIONCLEX: return raw(SYS_fcntl, fd(f, 0), F_SETFD, 0);
    case FIONREAD: return bytes_to_read(*d, memory<int>(f, 2));
    case FIONBIO: return 0;
    case _IOW(0x94, 9, int): return minus(EOPNOTSUPP);  // FICLONE
    default: return minus(ENOTTY);
  }
}

/// Closes the numbers between the library's own descriptors, which stay open.
Reply close_range(Frame& f) {
  auto first = static_cast<unsigned>(f.word[0]);
  const auto last = static_cast<unsigned>(f.word[1]);
  const auto flags = static_cast<unsigned>(f.word[2]);
  if (first > last || (flags & ~(CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC)) != 0) return minus(EINVAL);
  const bool closes = (flags & CLOSE_RANGE_CLOEXEC) == 0 && !front().in_vfork_child();
  for (int n = closes ? next_descriptor(static_cast<int>(std::min<unsigned>(first, kMaxDescriptors))) : -1;
       n >= 0 && static_cast<unsigned>(n) <= last; n = next_descriptor(n + 1)) {
    before_losing(n);
    DescriptionRef meant = replace(n, nullptr);
    raw(SYS_close, n);
    std::ignore = lose(std::move(meant));
  }
  for (unsigned n = first; n <= last && n < static_cast<unsigned>(kMaxDescriptors); ++n) {
    if (!is_own(n)) continue;
    if (first < n) raw(SYS_close_range, first, n - 1, flags);
    first = n + 1;
  }
  return first > last ? 0 : raw(SYS_close_range, first, last, flags);
}

void note_sent(msghdr& message) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS || part->cmsg_len < CMSG_LEN(0)) continue;
    for (std::size_t at = 0; at + sizeof(int) <= part->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int sent = -1;
      std::memcpy(&sent, CMSG_DATA(part) + at, sizeof sent);
      if (const DescriptionRef d = description_of(sent)) d->note_shared();
    }
  }
}

/// The message carries descriptors to another process. Notes that it shares their files from now on.
Reply send_message(Frame& f) {
  note_sent(*memory<msghdr>(f, 1));
  return kToKernel;
}
Reply send_messages(Frame& f) {
  auto* const all = memory<mmsghdr>(f, 1);
  for (unsigned i = 0; i < static_cast<unsigned>(f.word[2]); ++i) note_sent(all[i].msg_hdr);
  return kToKernel;
}

}  // namespace

Handler descriptor_handler(long number) {
  switch (number) {
    case SYS_dup: return dup;
    case SYS_dup2:
    case SYS_dup3: return dup_to;
    case SYS_fcntl: return fcntl;
    case SYS_flock: return flock;
    case SYS_ioctl: return ioctl;
    case SYS_sendmsg: return send_message;
    case SYS_sendmmsg: return send_messages;
    case SYS_close_range: return close_range;
    default: return nullptr;
  }
}

}  // namespace spate::preload
