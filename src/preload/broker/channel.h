// SPDX-License-Identifier: Apache-2.0
// A broker's messages on a local socket (SOCK_SEQPACKET).
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "preload/broker/messages.h"

namespace spate::preload {

/// The name of a broker's socket (base/local_socket.h).
std::string broker_name(std::uint64_t id);

/// A copy of `descriptor` (-1: none) goes with it. Never waits; kConnectionLost, kTryAgain (no room).
Result<void> send_packet(int socket, const Bytes& body, int descriptor);
struct Packet {
  Bytes body;
  UniqueFd descriptor;
};
/// The next packet, waiting for it only with `wait`: else kTryAgain. kConnectionLost: the other side has ended. Surplus
/// descriptors are closed.
Result<Packet> receive_packet(int socket, bool wait);

template <typename Message>
Bytes packet_of(const Message& message) {
  Bytes body;
  wire::encode_body(message, body);
  return body;
}

}  // namespace spate::preload
