// SPDX-License-Identifier: Apache-2.0
// Packets with descriptors over a Unix socket.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/bytes.h"
#include "base/unique_fd.h"

namespace spate::bmi::shm {

inline constexpr std::size_t kMaxPacket = 128;
inline constexpr std::size_t kMaxPassed = 2;

/// Sends a packet. Never blocks and raises no SIGPIPE. 0, or errno.
int send_packet(int socket, ByteView bytes, std::span<const int> descriptors);

struct Packet {
  enum class Status { kPacket, kNothing, kClosed };
  Status status = Status::kNothing;
  std::array<std::byte, kMaxPacket> bytes{};
  std::size_t size = 0;  // kMaxPacket + 1: the packet is longer than any of ours
  std::array<UniqueFd, kMaxPassed> descriptors;
  std::size_t descriptor_count = 0;

  ByteView view() const { return ByteView(bytes).first(size <= kMaxPacket ? size : 0); }
};

/// The next packet; never blocks. Descriptors beyond kMaxPassed are closed.
void receive_packet(int socket, Packet& packet);

}  // namespace spate::bmi::shm
