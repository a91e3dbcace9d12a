// SPDX-License-Identifier: Apache-2.0
#include "bmi/tcp/zero_copy_sends.h"

// errqueue.h uses timespec without declaring it. The header above declares it.
#include <linux/errqueue.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <ctime>

namespace spate::bmi::tcp {

bool ZeroCopySends::enable(int socket) {
  const int on = 1;
  return ::setsockopt(socket, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on) == 0;
}

ZeroCopySends::Reports ZeroCopySends::take(int socket, SendObserver& observer) {
  Reports reports;
  while (!calls_.empty()) {
    alignas(cmsghdr) std::array<std::byte, 128> control;  // filled by the kernel up to msg_controllen
    msghdr message{};
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    if (::recvmsg(socket, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) break;
    for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
      sock_extended_err what{};
      if (one->cmsg_len < CMSG_LEN(sizeof what)) continue;
      std::memcpy(&what, CMSG_DATA(one), sizeof what);
      if (what.ee_origin != SO_EE_ORIGIN_ZEROCOPY || what.ee_errno != 0) continue;
      const std::uint64_t calls = end_calls(what.ee_info, what.ee_data, observer);
      reports.calls += calls;
      if ((what.ee_code & SO_EE_CODE_ZEROCOPY_COPIED) != 0) reports.copied += calls;
    }
  }
  return reports;
}

/// The kernel's numbers have 32 bits and wrap around. Its reports are ranges of numbers, in any order.
std::uint64_t ZeroCopySends::end_calls(std::uint32_t first, std::uint32_t last, SendObserver& observer) {
  std::uint64_t ended = 0;
  const std::uint64_t count = std::uint64_t{last - first} + 1;
  const std::uint64_t begin = calls_.first() + (first - static_cast<std::uint32_t>(calls_.first()));
  for (std::uint64_t at = begin; at < begin + count && at < calls_.end(); ++at) {
    Call& call = calls_.at(at);
    if (call.told) continue;
    call.told = true;
    ++ended;
    observer.told(call.op);
  }
  while (!calls_.empty() && calls_.front().told) calls_.pop();
  return ended;
}

bool ZeroCopySends::any_of(std::uint64_t position) {
  for (std::uint64_t at = calls_.first(); at != calls_.end(); ++at) {
    if (calls_.at(at).position == position && !calls_.at(at).told) return true;
  }
  return false;
}

}  // namespace spate::bmi::tcp
