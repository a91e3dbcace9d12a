// SPDX-License-Identifier: Apache-2.0
// What a request handler knows of its request besides the message.
#pragma once

#include <memory>
#include <optional>

#include "base/clock.h"
#include "bmi/network.h"
#include "job/stop.h"
#include "model/attributes.h"
#include "rpc/acceptor.h"
#include "rpc/seals.h"
#include "wire/session_messages.h"

namespace spate::rpc {

/// How the messages of one connection are kept from being altered, dropped out of their order, or repeated.
struct Sealing {
  Seals seals;
  TagWindow window;
};

/// The other end of one connection, as the handshake has authenticated it.
struct Peer {
  bmi::Address address;
  bmi::Address bound;                           // the same by this connection only (bmi::Network::bound)
  std::optional<Handshake> handshake;           // hello was answered
  std::optional<Sealing> sealing;               // from a good authenticate on; none where nothing is sealed
  std::shared_ptr<wire::BulkSeals> bulk_seals;  // where bulk data are, too; what moves them keeps it
  std::uint16_t version = wire::kProtocolVersion;
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
  bmi::Address address;  // by the connection that the request came by, and no other
  ByteView message;      // whole, without its seal
  bool sealed = false;   // so is the reply
  MonoTime arrived;      // before it waited for a place
  bmi::Tag tag;          // the reply's; bulk data of slot i travels with tag + 1 + i
  std::shared_ptr<Peer> peer;
  /// Fires at the caller's deadline, when the server stops, and when nobody waits for the answer any more: the
  /// connection was lost, or a newer copy of the request has come.
  job::StopToken stop;
  Places* places = nullptr;  // of the server, which outlives the call; null: nobody counts this call (see Aside)
};

}  // namespace spate::rpc
