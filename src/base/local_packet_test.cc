// SPDX-License-Identifier: Apache-2.0
#include "base/local_packet.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/expect.h"

namespace spate {
namespace {

class LocalPackets : public testing::Test {
 protected:
  void SetUp() override {
    int both[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both), 0);
    here.reset(both[0]);
    there.reset(both[1]);
  }
  static std::ptrdiff_t descriptors_open() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  }
  /// Sends more descriptors than our own code would, as a foreign peer may.
  void send_descriptors(std::size_t count) {
    std::array<char, CMSG_SPACE(16 * sizeof(int))> control{};
    char byte = 'x';
    iovec piece{&byte, 1};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    for (std::size_t i = 0; i < count; ++i) {
      const int descriptor = there.get();
      std::memcpy(CMSG_DATA(header) + i * sizeof descriptor, &descriptor, sizeof descriptor);
    }
    ASSERT_EQ(::sendmsg(there.get(), &message, 0), 1);
  }

  UniqueFd here;
  UniqueFd there;
  std::array<std::byte, 16> room{};
  LocalPacket packet;
};

TEST_F(LocalPackets, BytesAndDescriptorsComeTogether) {
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  const UniqueFd out(pipe[0]);
  UniqueFd in(pipe[1]);
  const int sent = in.get();
  ASSERT_EQ(send_local_packet(there.get(), as_bytes("hello"), std::span(&sent, 1)), 0);
  in.reset();
  ASSERT_EQ(receive_local_packet(here.get(), room, packet, true), 0);
  EXPECT_EQ(packet.size, 5U);
  EXPECT_FALSE(packet.cut);
  EXPECT_EQ(std::memcmp(room.data(), "hello", 5), 0);
  ASSERT_EQ(packet.descriptor_count, 1U);
  EXPECT_EQ(::fcntl(packet.descriptors[0].get(), F_GETFD), FD_CLOEXEC);
  ASSERT_EQ(::write(packet.descriptors[0].get(), "!", 1), 1);
  char byte = 0;
  ASSERT_EQ(::read(out.get(), &byte, 1), 1);
  EXPECT_EQ(byte, '!');
}

TEST_F(LocalPackets, SurplusDescriptorsAreClosed) {
  const std::ptrdiff_t before = descriptors_open();
  for (std::size_t count = 1; count <= 16; ++count) {
    send_descriptors(count);
    ASSERT_EQ(receive_local_packet(here.get(), room, packet, true), 0);
    EXPECT_EQ(packet.descriptor_count, std::min(count, kMostPassed));
    packet = LocalPacket();
    EXPECT_EQ(descriptors_open(), before) << count << " were sent";
  }
}

TEST_F(LocalPackets, APacketLongerThanTheRoomIsReportedAsCut) {
  ASSERT_EQ(send_local_packet(there.get(), Bytes(17), {}), 0);
  ASSERT_EQ(receive_local_packet(here.get(), room, packet, true), 0);
  EXPECT_TRUE(packet.cut);
  ASSERT_EQ(send_local_packet(there.get(), Bytes(16), {}), 0);
  ASSERT_EQ(receive_local_packet(here.get(), room, packet, true), 0);
  EXPECT_FALSE(packet.cut);
}

TEST_F(LocalPackets, ReportsAnEmptySocketAndAClosedPeer) {
  EXPECT_EQ(receive_local_packet(here.get(), room, packet, false), EAGAIN);
  there.reset();
  EXPECT_EQ(receive_local_packet(here.get(), room, packet, false), 0);
  EXPECT_EQ(packet.size, 0U);
  EXPECT_EQ(send_local_packet(here.get(), as_bytes("x"), {}), EPIPE);
}

}  // namespace
}  // namespace spate
