// SPDX-License-Identifier: Apache-2.0
// A handshake between an Initiator and an Acceptor, message by message, for tests and the fuzzer.
#pragma once

#include <functional>

#include "rpc/acceptor.h"
#include "rpc/initiator.h"

namespace spate::rpc {

inline Key key_of(unsigned n) {
  Key key{};
  key.fill(static_cast<std::byte>(n));
  return key;
}

/// Both sides have the right keys and names, unless a test changes them.
struct Meeting {
  Meeting() {
    identity.fs = FsId(0xF5);
    identity.key = key_of(1);
    identity.features = wire::kOurFeatures;
    options.fs = FsId(0xF5);
    options.server = ServerId(3);
    options.client_key = key_of(1);
    options.server_key = key_of(2);
    header.fs = FsId(0xF5);
    header.reply_room = 4096;
  }

  static Received received(const Bytes& message) {
    wire::RequestHeader head;
    wire::Reader reader(message);
    reader(head);
    const std::size_t body = reader.decoder().ok() ? reader.decoder().remaining() : 0;
    return {message, ByteView(message).last(body), head.version};
  }

  /// Exchanges hello, its reply and authenticate. A test may change each on its way. Returns the error of the side that
  /// refuses first.
  Result<void> handshake() {
    Initiator one(identity, wanted, version, random);
    const Acceptor other(options);
    hello = one.hello(header);
    if (on_hello) on_hello(hello);
    wire::ReplyHeader success;
    Bytes head;
    success.version = received(hello).version;
    wire::encode_body(success, head);
    std::optional<Handshake> handshake(std::in_place);
    handshake->asked = asked;
    if (!other.munge_credential(received(hello), asked).empty()) handshake->munge_identity = munge_identity;
    refused_by = "acceptor";
    SPATE_TRY(const Bytes body, other.hello(received(hello), head, {reached, reached_binding}, random, *handshake));
    reply = head;
    reply.insert(reply.end(), body.begin(), body.end());
    if (on_reply) on_reply(reply);
    refused_by = "initiator";
    SPATE_TRY(std::ignore, one.welcome(reply, dialled, dialled_binding));
    wire::AuthenticateRequest request;
    request.kind = kind.value_or(identity.kind);
    authenticate = one.authenticate(header, request);
    if (on_authenticate) on_authenticate(authenticate);
    refused_by = "acceptor";
    SPATE_TRY(const Accepted accepted, other.authenticate(received(authenticate), handshake));
    refused_by = "";
    accepted_kind = accepted.request.kind;
    user_key = accepted.user_key;
    features = one.features();
    protect = accepted.protect;
    both_alike = one.protect() == accepted.protect;
    if (accepted.keys) keys = *accepted.keys;
    if (one.keys()) initiator_keys = *one.keys();
    second = other.authenticate(received(authenticate), handshake).code();
    return {};
  }

  SeededRandom random{7};
  Identity identity;
  ServerId wanted{3};
  std::uint16_t version = wire::kProtocolVersion;
  AcceptorOptions options;
  Proof asked = Proof::kKey;
  std::optional<MungeIdentity> munge_identity;  // whose credential of munge the hello has, if it counts at the address
  wire::RequestHeader header;
  std::string dialled = "tcp://10.0.0.7:7400";
  std::string reached = "tcp://10.0.0.7:7400";
  Hash dialled_binding{};
  Hash reached_binding{};
  std::optional<wire::PeerKind> kind;  // the kind claimed in authenticate, whatever the key's role is
  std::function<void(Bytes&)> on_hello;
  std::function<void(Bytes&)> on_reply;
  std::function<void(Bytes&)> on_authenticate;

  // Results of handshake().
  Bytes hello;
  Bytes reply;
  Bytes authenticate;
  std::string refused_by;
  std::optional<UserKey> user_key;
  std::uint64_t features = 0;
  wire::PeerKind accepted_kind = wire::PeerKind::kClient;
  wire::Protect protect = wire::Protect::kNone;
  bool both_alike = false;
  wire::SessionKeys keys;
  wire::SessionKeys initiator_keys;
  Errc second = Errc::kOk;  // result of a second authenticate with the same message
};

}  // namespace spate::rpc
