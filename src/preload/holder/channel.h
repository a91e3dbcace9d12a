// SPDX-License-Identifier: Apache-2.0
// A holder's messages on a local socket (SOCK_SEQPACKET).
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "preload/holder/messages.h"

namespace spate::preload {

struct HolderAddress {
  sockaddr_un address{};
  socklen_t size = 0;
};
/// No file: nothing is left behind, and the name goes with the process. At most 100 bytes count.
HolderAddress holder_address(const std::string& name);

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
