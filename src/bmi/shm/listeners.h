// SPDX-License-Identifier: Apache-2.0
// Listeners: the sockets that the shm module listens on, and the handshakes of the links that it accepts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bmi/protocol/acceptor.h"
#include "bmi/shm/hello.h"
#include "bmi/shm/links.h"
#include "bmi/shm/packet.h"

namespace spate::bmi::shm {

struct Listener : Pollable {
  Listener() : Pollable(Kind::kListener) {}
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener();  // removes the socket's file
  UniqueFd socket;
  ContextId context;
  std::string url;
  std::string path;  // empty if the name is abstract
  std::uint64_t inode = 0;
};

/// The module's lock guards it. Life cycle: open() -> listen() -> destroyed, which removes the sockets' files.
class Listeners {
 public:
  Listeners(State& state, Events& events, Links& links, PolledLinks& polled)
      : state_(state), events_(events), links_(links), polled_(polled) {}

  /// False, with errno: out of descriptors.
  bool open() { return acceptor_.open(); }
  /// See Module::listen.
  Result<std::string> listen(std::string_view url, ContextId context);
  /// Accepts some of the links that wait at the listener.
  void accept_from(Listener& listener);
  /// Reads the first packet of an accepted link, which has no peer yet.
  void on_hello(Link& link);
  /// The peer was admitted: see Module::admit.
  void admitted(Peer& peer);

 private:
  void accepted(UniqueFd socket, Listener& listener);
  bool lets_in(Link& link, const Packet& packet, Welcome& welcome, Hello& hello);
  bool welcome_peer(Link& link, const Hello& hello, Welcome welcome, UniqueFd bell);
  Peer& unauthenticated_peer(Link& link, const Hello& hello);
  Peer& returning_peer(Link& link, const Hello& hello);
  void refuse(Link& link, const Welcome& welcome);

  State& state_;
  Events& events_;
  Links& links_;
  PolledLinks& polled_;
  protocol::Acceptor acceptor_;
  std::vector<std::unique_ptr<Listener>> listeners_;
};

}  // namespace spate::bmi::shm
