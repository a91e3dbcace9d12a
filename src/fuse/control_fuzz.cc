// SPDX-License-Identifier: Apache-2.0
// Fuzzer of a mount's control socket: packets of any size with any number of descriptors. Each must be one message, as
// it was sent or cut at its limit, and no descriptor may leak. Messages of this side must arrive unchanged.
//
// Input: packets: number of descriptors and flags (1 byte), size (2 bytes), bytes.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "base/check.h"
#include "base/codec.h"
#include "fuse/control.h"

namespace spate::fuse {
namespace {

constexpr std::size_t kMostText = 4000;
constexpr std::size_t kMostDescriptors = 8;
constexpr std::size_t kMostPackets = 32;

std::size_t open_descriptors() {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++n;
  return n;
}

/// Sends a packet that no correct supervisor or server would send.
bool send_raw(int socket, const Bytes& bytes, std::size_t descriptors, int given) {
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> room{};
  if (descriptors > 0) {
    message.msg_control = room.data();
    message.msg_controllen = CMSG_SPACE(descriptors * sizeof(int));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
    std::array<int, kMostDescriptors> all{};
    all.fill(given);
    std::memcpy(CMSG_DATA(header), all.data(), descriptors * sizeof(int));
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(bytes.size());
}

void check_heard(int socket, const Bytes& bytes, bool descriptor) {
  const auto heard = receive_message(socket);
  if (bytes.empty()) {  // an empty packet looks like the end of the other side
    SPATE_CHECK(heard.code() == Errc::kConnectionLost);
    return;
  }
  SPATE_CHECK(heard.has_value());
  SPATE_CHECK(heard->word == static_cast<MessageKind>(bytes[0]));
  const std::string_view text = as_text(ByteView(bytes).subspan(1));
  SPATE_CHECK(heard->text == text.substr(0, kMostText));
  SPATE_CHECK(static_cast<bool>(heard->descriptor) == descriptor);
}

void talk(Decoder in) {
  std::array<int, 2> ends{};
  SPATE_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
  const UniqueFd here(ends[0]);
  UniqueFd there(ends[1]);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (std::size_t i = 0; i < kMostPackets && in.ok() && in.remaining() >= 3; ++i) {
    const std::size_t descriptors = in.u8() % (kMostDescriptors + 1);
    Bytes bytes(std::min<std::size_t>(in.u16() % (2 * kMostText), in.remaining()));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(in.u8());
    if (!send_raw(there.get(), bytes, descriptors, null.get())) break;
    check_heard(here.get(), bytes, descriptors > 0);
    if (bytes.empty()) continue;
    const MessageKind word = static_cast<MessageKind>(bytes[0]);
    const std::string text(as_text(bytes));
    SPATE_CHECK(send_message(here.get(), word, text, descriptors > 0 ? null.get() : -1).has_value());
    const auto answer = receive_message(there.get());
    SPATE_CHECK(answer.has_value() && answer->word == word && answer->text == text.substr(0, kMostText));
    SPATE_CHECK(static_cast<bool>(answer->descriptor) == (descriptors > 0));
  }
  there.reset();
  SPATE_CHECK(receive_message(here.get()).code() == Errc::kConnectionLost);
}

}  // namespace
}  // namespace spate::fuse

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spate;
  const std::size_t before = fuse::open_descriptors();
  fuse::talk(Decoder(ByteView(reinterpret_cast<const std::byte*>(data), size)));
  SPATE_CHECK(fuse::open_descriptors() == before);
  return 0;
}
