// SPDX-License-Identifier: Apache-2.0
// Call: the context of a request for its handler, beside the message: its peer, its deadline, its permit.
#pragma once

#include <memory>
#include <optional>

#include "base/clock.h"
#include "bmi/network.h"
#include "job/stop.h"
#include "model/attributes.h"
#include "model/user_key.h"
#include "rpc/acceptor.h"
#include "rpc/seals.h"
#include "wire/session_messages.h"

namespace spate::rpc {

/// Detects messages that were altered, repeated, or brought from another connection.
struct Sealing {
  Seals seals;
  TagWindow window;
};

/// The other end of one connection, as the handshake has authenticated it.
struct Peer {
  bmi::Address address;
  bmi::Address bound;                           // address of this one connection (bmi::Network::bound)
  std::optional<Handshake> handshake;           // set when hello was answered
  std::optional<Sealing> sealing;               // set by a successful authenticate; none if nothing is sealed
  std::shared_ptr<wire::BulkSeals> bulk_seals;  // set if bulk data is sealed, too; transfers in flight share it
  std::uint16_t version = wire::kProtocolVersion;
  bool admitted = false;        // has proved its key
  std::uint32_t under_way = 0;  // its requests under way; counted while it is an unauthenticated peer
  bool authenticated = false;
  wire::PeerKind kind = wire::PeerKind::kClient;
  ClientId client;
  ServerId server;  // kind server: the id that it claims; 0: none. All servers have the same key
  std::uint32_t epoch = 0;
  std::uint64_t incarnation = 0;
  std::uint64_t features = 0;  // wire::Feature: the features that hello agreed on
  Credential credential;
  std::optional<UserKey> user_key;  // none: the client key itself, which is good for every user; or the server key
  std::string description;
  bool reads_only() const { return user_key && user_key->read_only; }
  /// The key is good for one directory and what is below it only.
  bool is_confined() const { return user_key && user_key->directory; }
};

class Permits;

/// One request under way. Lives until its handler has ended.
struct Call {
  wire::RequestHeader header;
  bmi::Address address;  // bound to the connection by which the request came
  ByteView message;      // whole, without its seal
  bool sealed = false;   // the request was sealed, so the reply will be
  MonoTime arrived;      // when it came, before it waited for a permit
  bmi::Tag tag;          // the reply's; bulk data of slot i travels with tag + 1 + i
  std::shared_ptr<Peer> peer;
  /// Fires at the caller's deadline, when the server stops, and when nobody waits for the answer any more: the
  /// connection is lost, or a newer copy of the request has arrived.
  job::StopToken stop;
  std::uint64_t moved_bytes = 0;  // file data that the handler has moved
  Handle file;                    // the file to which these data belong; 0: none
  /// For requests that only an operator makes: the handler says what it has done, for the audit log. Otherwise it is
  /// empty.
  std::string deed;
  /// The request changes what several servers hold: its reply waits until as many of them hold it as the operator
  /// demands (ReplyGate).
  bool needs_copies = false;
  Permits* permits =
      nullptr;  // the server's, which outlives the call; null: the call takes no permit (see ReleasedPermit)
};

}  // namespace spate::rpc
