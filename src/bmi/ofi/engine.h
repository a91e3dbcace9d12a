// SPDX-License-Identifier: Apache-2.0
// Engine: the ofi module: the calls of the core, and the parts that do their work.
#pragma once

#include <string>
#include <vector>

#include "bmi/ofi/event_loop.h"
#include "bmi/protocol/event_set.h"
#include "bmi/protocol/module_base.h"
#include "bmi/protocol/wake_timer.h"

namespace spate::bmi::ofi {

/// Thread-safe; see ModuleBase. Life cycle: see Module. The destructor lets sent packets leave and tells connected
/// peers, for at most 200 ms, and closes all endpoints; each endpoint of verbs may take 250 ms more.
class Engine final : public protocol::ModuleBase<Engine, OfiModule, State>, private PeerHost {
 public:
  Engine(const Clock& clock, const OfiOptions& options);
  ~Engine() override;

  std::string_view scheme() const override { return "ofi"; }
  Abilities abilities() const override { return Abilities{.uses_registered_memory = true, .sends_at_once = true}; }
  Result<void> start(Sink& sink, const NetworkOptions& options) override;
  Result<std::string> listen(std::string_view url, ContextId context) override;
  Result<PeerId> lookup(std::string_view url, Address address) override;
  bool send_at_once(const Post& post, bool unexpected) override;
  void consumed(PeerId peer, std::uint64_t charge) override;
  int wait_descriptor() const override { return events_.descriptor(); }
  bool also_wait_for(int fd) override { return events_.add(fd, EPOLLIN, nullptr); }
  void stop_waiting_for(int fd) override { events_.remove(fd); }
  bool prepare_to_wait() override;
  Result<void> mem_register(MutableByteView memory) override;
  void mem_deregister(MutableByteView memory) override;
  OfiCounters counters() const override;
  PinCounters pin_counters() const override;
  std::vector<ModuleCount> counts() const override;

  // For ModuleBase.
  bool poll() { return loop_.poll(); }
  void settle() { sessions_.settle(); }
  static void complete(const Peer& peer, PeerState& state);
  void admitted(Peer& peer);
  void lose_peer(Peer& peer, Errc status) { sessions_.lose_peer(peer, status); }

 private:
  // PeerHost.
  void connect(Peer& peer) override { connector_.connect(peer); }
  void keep_turning(Peer& peer) override { pending_peers_.keep_turning(peer); }
  MonoTime begin_grace() override;
  void unauthenticated_asked(Peer& peer) override { state_.unauthenticated_peers.asked(&peer); }
  void look_at_pages() override { endpoints_.look_at_pages(); }
  OfiCounters& counters() override { return state_.ofi_counters; }

  protocol::WakeTimer timer_;
  protocol::EventSet events_;
  PendingPeers pending_peers_;
  Endpoints endpoints_;
  Sessions sessions_{state_, pending_peers_};
  Connector connector_{state_, endpoints_, sessions_, pending_peers_};
  Acceptance acceptance_{state_, sessions_};
  PeerHealthCheck health_check_{state_, endpoints_, sessions_, connector_, pending_peers_};
  EventLoop loop_;
};

}  // namespace spate::bmi::ofi
