// SPDX-License-Identifier: Apache-2.0
// What a request handler knows of its request besides the message.
#pragma once

#include <memory>

#include "bmi/network.h"
#include "job/stop.h"
#include "model/attributes.h"
#include "wire/session_messages.h"

namespace spate::rpc {

/// Who is at the other end of a connection, as authenticate established it.
struct Peer {
  bmi::Address address;
  std::uint32_t connection = 0;  // bmi::PeerInfo::connection when it said hello
  wire::Nonce client_nonce{};
  wire::Nonce server_nonce{};
  bool greeted = false;
  bool admitted = false;        // has proved its key: no stranger to the network any more
  std::uint32_t under_way = 0;  // its requests; counted while it is a stranger
  bool authenticated = false;
  wire::PeerKind kind = wire::PeerKind::kClient;
  ClientId client;
  std::uint32_t epoch = 0;
  std::uint64_t incarnation = 0;
  std::uint64_t features = 0;  // wire::Feature, as agreed on by hello
  Credential credential;
  std::string description;
};

class Places;

/// One request under way. Lives until its handler has ended.
struct Call {
  wire::RequestHeader header;
  bmi::Address address;
  bmi::Tag tag;  // the reply's; bulk data of slot i travels with tag + 1 + i
  std::shared_ptr<Peer> peer;
  /// Fires at the caller's deadline, when the server stops, and when nobody waits for the answer any more: the
  /// connection was lost, or a newer copy of the request has come.
  job::StopToken stop;
  Places* places = nullptr;  // of the server, which outlives the call; null: nobody counts this call (see Aside)
};

}  // namespace spate::rpc
