// SPDX-License-Identifier: Apache-2.0
#include "preload/holder/channel.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace spate::preload {
namespace {

constexpr std::size_t kLargest = 512;  // bytes of a packet
constexpr std::size_t kLongestName = 100;

union DescriptorRoom {
  cmsghdr align;
  std::array<char, CMSG_SPACE(sizeof(int))> bytes;
};

Error broken(const char* what) {
  return errno == EAGAIN || errno == EWOULDBLOCK ? Error(Errc::kTryAgain, what) : Error(Errc::kConnectionLost, what);
}

}  // namespace

HolderAddress holder_address(const std::string& name) {
  HolderAddress made;
  made.address.sun_family = AF_UNIX;
  const std::size_t size = std::min(name.size(), kLongestName);
  std::memcpy(&made.address.sun_path[1], name.data(), size);
  made.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  return made;
}

Result<void> send_packet(int socket, const Bytes& body, int descriptor) {
  iovec part{const_cast<std::byte*>(body.data()), body.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  DescriptorRoom room{};
  if (descriptor >= 0) {
    message.msg_control = room.bytes.data();
    message.msg_controllen = room.bytes.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  }
  if (::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
    return broken("send to the other side of a holder's socket");
  return {};
}

Result<Packet> receive_packet(int socket, bool wait) {
  Packet out;
  out.body.resize(kLargest);
  iovec part{out.body.data(), out.body.size()};
  DescriptorRoom room{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room.bytes.data();
  message.msg_controllen = room.bytes.size();
  ssize_t size = 0;
  do {
    size = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
  } while (size < 0 && errno == EINTR);
  if (size < 0) return broken("hear from the other side of a holder's socket");
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(sizeof(int))) {
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(header), sizeof(int));
    out.descriptor.reset(descriptor);
  }
  if (size == 0) return Error(Errc::kConnectionLost, "the other side of a holder's socket has ended");
  out.body.resize(static_cast<std::size_t>(size));
  return out;
}

}  // namespace spate::preload
