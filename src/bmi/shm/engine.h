// SPDX-License-Identifier: Apache-2.0
// Engine: the shm module: the calls of the core, and the parts that do their work.
#pragma once

#include <string>
#include <vector>

#include "bmi/protocol/module_base.h"
#include "bmi/protocol/wake_timer.h"
#include "bmi/shm/event_loop.h"

namespace spate::bmi::shm {

/// Thread-safe; see ModuleBase. Life cycle: see Module. The destructor closes all links without waiting for peers.
class Engine final : public protocol::ModuleBase<Engine, ShmModule, State>, private PeerHost {
 public:
  Engine(const Clock& clock, ShmOptions options);

  std::string_view scheme() const override { return "shm"; }
  Abilities abilities() const override { return Abilities{.passes_descriptors = true, .sends_at_once = true}; }
  Result<void> start(Sink& sink, const NetworkOptions& options) override;
  Result<std::string> listen(std::string_view url, ContextId context) override;
  Result<PeerId> lookup(std::string_view url, Address address) override;
  bool send_at_once(const Post& post, bool unexpected) override;
  void consumed(PeerId peer, std::uint64_t charge) override;
  int wait_descriptor() const override { return events_.descriptor(); }
  bool also_wait_for(int fd) override { return events_.wake_for(fd); }
  void stop_waiting_for(int fd) override { events_.remove(fd); }
  bool prepare_to_wait() override;
  Result<void> pass_descriptor(PeerId peer, Tag tag, int fd) override;
  Result<UniqueFd> take_descriptor(PeerId peer, Tag tag) override;
  MutableByteView mem_alloc(std::size_t size) override;
  void mem_free(MutableByteView memory) override;
  ShmCounters counters() const override;
  std::vector<ModuleCount> counts() const override;

  // For ModuleBase.
  bool poll() { return loop_.poll(); }
  void settle() { links_.settle(); }
  static void complete(const Peer& peer, PeerState& state);
  void admitted(Peer& peer) { listeners_.admitted(peer); }
  void lose_peer(Peer& peer, Errc status) { links_.lose_peer(peer, status); }

 private:
  // PeerHost.
  void connect(Peer& peer) override { connector_.connect(peer); }
  void keep_turning(Peer& peer) override;
  bool read_notes(Link& link) override { return notes_.read(link); }
  void begin_grace(Peer& peer, Op& op) override { loop_.begin_grace(peer, op); }
  void unauthenticated_asked(Peer& peer) override { state_.unauthenticated_peers.asked(peer.link); }
  const ArenaPool& arenas() const override { return state_.arenas; }
  ShmCounters& counters() override { return state_.shm_counters; }

  protocol::WakeTimer timer_;
  Events events_;
  PolledLinks polled_;
  Links links_{state_, events_, polled_, timer_};
  NoteReader notes_{state_, polled_};
  Listeners listeners_{state_, events_, links_, polled_};
  Connector connector_{state_, events_, links_, polled_};
  EventLoop loop_;
};

}  // namespace spate::bmi::shm
