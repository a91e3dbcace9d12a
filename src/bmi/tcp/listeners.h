// SPDX-License-Identifier: Apache-2.0
// Listeners: the sockets that the tcp module listens on, and the handshakes of the connections that it accepts.
#pragma once

#include <memory>
#include <vector>

#include "bmi/protocol/acceptor.h"
#include "bmi/tcp/connection.h"
#include "bmi/tcp/connections.h"
#include "bmi/tcp/events.h"
#include "bmi/tcp/state.h"
#include "bmi/tcp/tls_starts.h"

namespace spate::bmi::tcp {

struct Listener : Pollable {
  Listener() : Pollable(Kind::kListener) {}
  UniqueFd socket;
  ContextId context;
  bool secure = false;  // tcp+tls
};

/// The module's lock guards it. Life cycle: open() -> add() -> destroyed.
class Listeners {
 public:
  Listeners(State& state, Events& events, Connections& connections, TlsStarts& tls)
      : state_(state), events_(events), connections_(connections), tls_(tls) {}
  Listeners(const Listeners&) = delete;
  Listeners& operator=(const Listeners&) = delete;

  /// False, with errno: out of descriptors.
  bool open() { return acceptor_.open(); }
  /// Accepts connections from a listening socket. False, with errno: it cannot be watched.
  bool add(UniqueFd socket, ContextId context, bool secure);
  /// Accepts some of the connections that wait at the listener.
  void accept_from(Listener& listener);
  /// The peer was admitted: see Module::admit.
  void admitted(Peer& peer);

 private:
  void accepted(UniqueFd socket, Listener& listener);
  bool on_hello(Connection& connection, const std::byte* bytes);
  bool accept_control(Connection& connection, const Hello& hello);
  Peer& unauthenticated_peer(Connection& connection, const Hello& hello);
  Peer& returning_peer(Connection& connection, const Hello& hello);
  bool accept_bulk(Connection& connection, const Hello& hello, const std::byte* bytes);
  bool begin_proof(Connection& connection, const Peer& peer, const Hello& hello, const std::byte* bytes);
  bool on_proof(Connection& connection, const std::byte* bytes);
  bool open_bulk(Connection& connection, Peer& peer, unsigned channel);
  bool refuse(Connection& connection, const Welcome& welcome);

  State& state_;
  Events& events_;
  Connections& connections_;
  TlsStarts& tls_;
  protocol::Acceptor acceptor_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  HandshakeHandler<Listeners, kHelloSize, &Listeners::on_hello> hello_handler_{*this};
  HandshakeHandler<Listeners, sizeof(LinkProof), &Listeners::on_proof> proof_handler_{*this};
};

}  // namespace spate::bmi::tcp
