// SPDX-License-Identifier: Apache-2.0
// Messages of a broker on a local socket (SOCK_SEQPACKET).
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "preload/broker/messages.h"

namespace spate::preload {

/// The name of a broker's socket (base/local_socket.h).
std::string broker_name(std::uint64_t id);

/// Sends a packet with a copy of `descriptor` (-1: none). Never waits. kConnectionLost; kTryAgain: the queue is full.
Result<void> send_packet(int socket, const Bytes& body, int descriptor);
struct Packet {
  Bytes body;
  UniqueFd descriptor;
};
/// The next packet. Without `wait`: kTryAgain if there is none. kConnectionLost: the other side has ended. Closes any
/// descriptors of the packet beyond the first.
Result<Packet> receive_packet(int socket, bool wait);

template <typename Message>
Bytes packet_of(const Message& message) {
  Bytes body;
  wire::encode_body(message, body);
  return body;
}

}  // namespace spate::preload
