// SPDX-License-Identifier: Apache-2.0
#include "base/local_packet.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace spate {
namespace {

/// Room for the control message; aligned as the kernel wants it. Padding may make room for one descriptor more.
struct alignas(cmsghdr) ControlRoom {
  std::array<char, CMSG_SPACE(kMostPassed * sizeof(int))> bytes{};
};

void take_descriptors(msghdr& message, LocalPacket& packet) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(part) + i * sizeof descriptor, sizeof descriptor);
      UniqueFd owned(descriptor);
      if (packet.descriptor_count < kMostPassed) packet.descriptors[packet.descriptor_count++] = std::move(owned);
    }
  }
}

}  // namespace

int send_local_packet(int socket, ByteView bytes, std::span<const int> descriptors) {
  SPATE_CHECK(descriptors.size() <= kMostPassed);
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  ControlRoom room;
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = room.bytes.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  while (::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

int receive_local_packet(int socket, MutableByteView room, LocalPacket& packet, bool wait) {
  packet = LocalPacket();
  iovec piece{room.data(), room.size()};
  ControlRoom control;
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  ssize_t size = 0;
  do {
    size = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
  } while (size < 0 && errno == EINTR);
  if (size < 0) return errno;
  take_descriptors(message, packet);
  packet.size = static_cast<std::size_t>(size);
  packet.cut = (message.msg_flags & MSG_TRUNC) != 0;
  return 0;
}

}  // namespace spate
