// SPDX-License-Identifier: Apache-2.0
// Packets that carry descriptors between processes of one host.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/bytes.h"
#include "base/unique_fd.h"

namespace spate {

/// The most descriptors that one packet carries.
inline constexpr std::size_t kMostPassed = 2;

/// Sends `bytes` over a local socket (SOCK_SEQPACKET), with a copy of each of at most kMostPassed descriptors. Never
/// waits and raises no SIGPIPE; a signal does not interrupt it. Returns 0, or errno.
int send_local_packet(int socket, ByteView bytes, std::span<const int> descriptors);

struct LocalPacket {
  std::size_t size = 0;  // bytes in the room; 0: the other side has ended
  bool cut = false;      // the packet was longer than the room
  std::array<UniqueFd, kMostPassed> descriptors;
  std::size_t descriptor_count = 0;
};
/// Receives the next packet; its bytes go to `room`. Without `wait` it returns EAGAIN where none has come. Returns 0,
/// or errno. Closes descriptors beyond kMostPassed, so that a peer that sends more leaks none into this process.
int receive_local_packet(int socket, MutableByteView room, LocalPacket& packet, bool wait);

}  // namespace spate
