// SPDX-License-Identifier: Apache-2.0
// Engine: the tcp module: the calls of the core, and the parts that do their work.
#pragma once

#include <string>
#include <vector>

#include "bmi/protocol/module_base.h"
#include "bmi/protocol/wake_timer.h"
#include "bmi/tcp/event_loop.h"

namespace spate::bmi::tcp {

/// Thread-safe; see ModuleBase. Life cycle: see Module. The destructor closes all connections without waiting for
/// peers.
class Engine final : public protocol::ModuleBase<Engine, TcpModule, State>, private PeerHost {
 public:
  Engine(const Clock& clock, const TcpOptions& options);

  std::string_view scheme() const override { return "tcp"; }  // and "tcp+tls"
  Abilities abilities() const override { return Abilities{.sends_files_in_kernel = true}; }
  Result<void> start(Sink& sink, const NetworkOptions& options) override;
  Result<std::string> listen(std::string_view url, ContextId context) override;
  Result<PeerId> lookup(std::string_view url, Address address) override;
  void set_link_key(PeerId peer, std::uint32_t connection, const Key& key) override;
  void consumed(PeerId peer, std::uint64_t charge) override;
  bool progress() override { return events_.used() && ModuleBase::progress(); }
  int wait_descriptor() const override { return events_.descriptor(); }
  bool also_wait_for(int fd) override { return events_.wake_for(fd); }
  void stop_waiting_for(int fd) override { events_.wake_no_more_for(fd); }
  bool has_wait() const override { return true; }
  void hold_sends() override { sends_.hold(); }
  void flush_sends() override;
  bool wait(Duration timeout) override;
  /// The descriptor shows all work that is left for a later progress(). Data that waits for a slice makes it readable,
  /// and the thread that adds a report delivers it.
  bool prepare_to_wait() override {
    loop_.sleep_follows();
    return true;
  }
  TcpCounters counters() const override;
  std::vector<ModuleCount> counts() const override;

  // For ModuleBase.
  Result<PostResult> post(const Post& post, bool receive, bool unexpected);
  bool poll() { return loop_.poll(); }
  void settle();
  static void complete(const Peer& peer, PeerState& state);
  void admitted(Peer& peer) { listeners_.admitted(peer); }
  void lose_peer(Peer& peer, Errc status) { connections_.lose_peer(peer, status); }

 private:
  Result<Endpoint> endpoint_of(std::string_view url);

  // PeerHost.
  void connect_control(Peer& peer) override { connector_.connect_control(peer); }
  void connect_bulk(Peer& peer) override { connector_.connect_bulk(peer); }
  void flush(Connection& connection) override { sends_.flush(connection); }
  void begin_grace(Connection& connection, const Op& op) override;
  bool lends(const Peer& peer) const override;
  void control_arrived() override { slices_.control_moved(); }
  void unauthenticated_asked(Peer& peer) override { state_.unauthenticated_peers.asked(peer.channels[0].connection); }
  TcpCounters& counters() override { return state_.tcp_counters; }

  protocol::WakeTimer timer_;
  Events events_;
  BulkSlices slices_{state_.tcp_options};
  Connections connections_{state_, events_, slices_, timer_};
  SendSchedule sends_{state_, connections_, slices_};
  IdleSweeps idle_{state_, connections_, timer_};
  TlsStarts tls_{state_, connections_};
  Listeners listeners_{state_, events_, connections_, tls_};
  Connector connector_{state_, events_, connections_, idle_, tls_};
  EventLoop loop_;
};

}  // namespace spate::bmi::tcp
