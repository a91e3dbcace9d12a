// SPDX-License-Identifier: Apache-2.0
// Links: the links of the module: listening, connecting, handshakes and ends.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bmi/pipe/peer.h"
#include "bmi/protocol/acceptor.h"
#include "bmi/protocol/event_set.h"
#include "bmi/protocol/shared_state.h"
#include "bmi/protocol/wake_timer.h"

namespace spate::bmi::pipe {

/// The state that the parts of the module share; see protocol::SharedState.
struct State : protocol::SharedState<Peer, PeerHost, Link*> {
  State(const Clock& its_clock, PeerHost& its_host) : SharedState(its_clock, its_host, "bmi/pipe") {}
};

struct Listener : Source {
  Listener() : Source(Kind::kListener) {}
  UniqueFd socket;
  ContextId context;
  std::string url;
};

/// The module's lock guards it. Life cycle: open() -> everything else -> destroyed, which closes all links.
class Links {
 public:
  explicit Links(State& state) : state_(state), timer_(state.clock), deadlines_(timer_) {}

  /// False, with errno: out of descriptors.
  bool open();
  Result<std::string> listen(std::string_view url, ContextId context);
  void connect(Peer& peer);
  void admitted(Peer& peer);
  /// Closes the peer's link and ends its operations with `status`.
  void lose_peer(Peer& peer, Errc status);
  void watch_room(Link& link, bool watch);

  /// A turn. Returns whether there was anything to do.
  bool poll();
  int descriptor() const { return events_.descriptor(); }
  /// Whether a listener or a link ever existed. Until then no event can come.
  bool used() const { return used_; }

 private:
  Link* add(UniqueFd socket);
  void close(Link& link);
  void drop(Link& link, std::string_view why);
  void accept_from(Listener& listener);
  void accepted(UniqueFd socket, const Listener& listener);
  void read(Link& link);
  bool on_packet(Link& link, ByteView packet);
  void on_hello(Link& link, const Hello& hello);
  Peer& unauthenticated_peer(Link& link, const Hello& hello);
  Peer& returning_peer(Link& link, const Hello& hello);
  void expire();

  State& state_;
  protocol::EventSet events_;
  protocol::WakeTimer timer_;
  protocol::Deadlines<Link> deadlines_;
  protocol::Acceptor acceptor_;
  Source timer_source_{Source::Kind::kTimer};
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::unordered_map<Link*, std::unique_ptr<Link>> open_;
  std::vector<std::unique_ptr<Link>> closed_;  // events that were fetched may still point at them
  Bytes room_;                                 // for the packet that is being read
  bool used_ = false;
};

}  // namespace spate::bmi::pipe
