// SPDX-License-Identifier: Apache-2.0
// Connector: makes the connections to peers that were looked up, and does this side's part of their handshakes.
#pragma once

#include <memory>
#include <string>

#include "bmi/tcp/connection.h"
#include "bmi/tcp/connections.h"
#include "bmi/tcp/events.h"
#include "bmi/tcp/idle_sweeps.h"
#include "bmi/tcp/resolver.h"
#include "bmi/tcp/state.h"
#include "bmi/tcp/tls_starts.h"

namespace spate::bmi::tcp {

/// The module's lock guards it. An attempt tries the addresses of a peer's host one after the other.
class Connector {
 public:
  Connector(State& state, Events& events, Connections& connections, IdleSweeps& idle, TlsStarts& tls)
      : state_(state), events_(events), connections_(connections), idle_(idle), tls_(tls) {}
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  /// See PeerHost.
  void connect_control(Peer& peer);
  void connect_bulk(Peer& peer);

  /// The resolver has results.
  void on_resolved();
  /// connect(2) has ended. False: the connection has failed.
  bool connect_ended(Connection& connection);
  /// The connection is open: begins the module's own handshake. False: the connection has failed.
  bool say_hello(Connection& connection);
  /// The control connection that was being made has failed: tries the next address.
  void attempt_failed(Peer& peer);

 private:
  void connect_next_address(Peer& peer);
  bool begin_channel(Peer& peer, unsigned channel);
  bool on_welcome(Connection& connection, const std::byte* bytes);
  bool on_proof(Connection& connection, const std::byte* bytes);
  void note_failure(Peer& peer, std::string why);

  State& state_;
  Events& events_;
  Connections& connections_;
  IdleSweeps& idle_;
  TlsStarts& tls_;
  std::unique_ptr<Resolver> resolver_;  // made when the first name is looked up
  HandshakeHandler<Connector, kWelcomeSize, &Connector::on_welcome> welcome_handler_{*this};
  HandshakeHandler<Connector, sizeof(LinkProof), &Connector::on_proof> proof_handler_{*this};
};

}  // namespace spate::bmi::tcp
