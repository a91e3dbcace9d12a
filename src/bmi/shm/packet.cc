// SPDX-License-Identifier: Apache-2.0
#include "bmi/shm/packet.h"

#include <cerrno>
#include <utility>

#include "base/check.h"
#include "base/local_packet.h"

namespace spate::bmi::shm {

static_assert(kMaxPassed == kMostPassed);

int send_packet(int socket, ByteView bytes, std::span<const int> descriptors) {
  SPATE_CHECK(bytes.size() <= kMaxPacket);
  return send_local_packet(socket, bytes, descriptors);
}

void receive_packet(int socket, Packet& packet) {
  LocalPacket got;
  const int failed = receive_local_packet(socket, packet.bytes, got, false);
  packet.descriptors = std::move(got.descriptors);
  packet.descriptor_count = got.descriptor_count;
  packet.size = got.cut ? kMaxPacket + 1 : got.size;
  if (failed == 0 && got.size > 0) {
    packet.status = Packet::Status::kPacket;
  } else {
    packet.status = failed == EAGAIN ? Packet::Status::kNothing : Packet::Status::kClosed;
  }
}

}  // namespace spate::bmi::shm
