// SPDX-License-Identifier: Apache-2.0
// Packets that carry descriptors between processes of one host.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/bytes.h"
#include "base/unique_fd.h"

namespace spate {

/// Descriptors of one packet.
inline constexpr std::size_t kMostPassed = 2;

/// Sends `bytes` over a local socket (SOCK_SEQPACKET), with a copy of each of at most kMostPassed descriptors. Never
/// waits, raises no SIGPIPE, goes on after a signal. 0, or errno.
int send_local_packet(int socket, ByteView bytes, std::span<const int> descriptors);

struct LocalPacket {
  std::size_t size = 0;  // bytes in the room; 0: the other side has ended
  bool cut = false;      // it was longer than the room
  std::array<UniqueFd, kMostPassed> descriptors;
  std::size_t descriptor_count = 0;
};
/// The next packet, with its bytes in `room`; waits for it only with `wait` (else EAGAIN). 0, or errno. Descriptors
/// beyond kMostPassed are closed: a peer that sends more leaves none behind here.
int receive_local_packet(int socket, MutableByteView room, LocalPacket& packet, bool wait);

}  // namespace spate
