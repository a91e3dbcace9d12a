// SPDX-License-Identifier: Apache-2.0
#include "bmi/shm/packet.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace spate::bmi::shm {
namespace {

/// Room for the control message; aligned as the kernel wants it.
struct alignas(cmsghdr) ControlRoom {
  std::array<char, CMSG_SPACE(kMaxPassed * sizeof(int))> bytes{};
};

void take_descriptors(msghdr& message, Packet& packet) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      UniqueFd owned(fd);
      if (packet.descriptor_count < kMaxPassed) packet.descriptors[packet.descriptor_count++] = std::move(owned);
    }
  }
}

}  // namespace

int send_packet(int socket, ByteView bytes, std::span<const int> descriptors) {
  SPATE_CHECK(bytes.size() <= kMaxPacket && descriptors.size() <= kMaxPassed);
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  ControlRoom room;
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = room.bytes.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(c), descriptors.data(), descriptors.size_bytes());
  }
  while (::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

void receive_packet(int socket, Packet& packet, bool accept_descriptors) {
  for (UniqueFd& fd : packet.descriptors) fd.reset();
  packet.descriptor_count = 0;
  packet.size = 0;
  iovec piece{packet.bytes.data(), packet.bytes.size()};
  ControlRoom room;
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = accept_descriptors ? room.bytes.data() : nullptr;
  message.msg_controllen = accept_descriptors ? room.bytes.size() : 0;
  ssize_t n = 0;
  do {
    n = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n <= 0) {
    const bool nothing = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    packet.status = nothing ? Packet::Status::kNothing : Packet::Status::kClosed;
    return;
  }
  packet.status = Packet::Status::kPacket;
  packet.size = (message.msg_flags & MSG_TRUNC) != 0 ? kMaxPacket + 1 : static_cast<std::size_t>(n);
  take_descriptors(message, packet);
}

}  // namespace spate::bmi::shm
