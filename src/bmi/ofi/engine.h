// SPDX-License-Identifier: Apache-2.0
// Engine: the ofi module's state and its parts: posts and delivery (engine.cc), turns and time (engine_events.cc),
// connecting and accepting (engine_connect.cc).
#pragma once

#include <sys/epoll.h>

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/biased_mutex.h"
#include "base/check.h"
#include "base/random.h"
#include "base/unique_fd.h"
#include "bmi/ofi/ofi_module.h"
#include "bmi/ofi/peer.h"
#include "bmi/ofi/wire.h"
#include "bmi/page_watch.h"
#include "bmi/protocol/peer_table.h"
#include "bmi/protocol/wake_timer.h"
#include "bmi/strangers.h"
#include "log/rate_limit.h"

namespace spate::bmi::ofi {

/// Thread-safe. One lock guards everything except the delivery to the sink: one thread at a time delivers, without the
/// lock (bmi/outbox.h). Life cycle: see Module. The destructor lets sent packets leave and tells connected peers, for
/// at most 200 ms, and closes all endpoints.
///
/// Each URL that it listens on has an endpoint (wire) of its own. Outbound peers share one endpoint per device.
class Engine final : public OfiModule, private PeerHost {
 public:
  Engine(const Clock& clock, OfiOptions options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() override;

  std::string_view scheme() const override { return "ofi"; }
  Abilities abilities() const override { return Abilities{.uses_registered_memory = true, .sends_at_once = true}; }
  Result<void> start(Sink& sink, const NetworkOptions& options) override;
  Result<std::string> listen(std::string_view url, ContextId context) override;
  Result<PeerId> lookup(std::string_view url, Address address) override;
  PeerState peer_state(PeerId peer) const override;
  std::uint32_t connection(PeerId peer) const override;
  void disconnect(PeerId peer) override;
  void admit(PeerId peer) override;
  Result<PostResult> post_send(const Post& post) override { return this->post(post, false, false); }
  Result<PostResult> post_recv(const Post& post) override { return this->post(post, true, false); }
  Result<PostResult> post_send_unexpected(const Post& post) override { return this->post(post, false, true); }
  bool send_at_once(const Post& post, bool unexpected) override;
  void cancel(PeerId peer, OpId op) override;
  void consumed(PeerId peer, std::uint64_t charge) override;
  bool progress() override;
  int wait_descriptor() const override { return epoll_.get(); }
  bool also_wait_for(int fd) override;
  void stop_waiting_for(int fd) override { (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }
  bool prepare_to_wait() override;
  Result<void> mem_register(MutableByteView memory) override;
  void mem_deregister(MutableByteView memory) override;
  OfiCounters counters() const override;
  PinCounters pin_counters() const override;
  std::vector<ModuleCount> counts() const override;

 private:
  /// A wire and the engine's state of it. Lives as long as the engine.
  struct Entry final : WireClient {
    explicit Entry(Engine& e) : engine(e) {}
    void on_packet(ByteView packet) override { engine.on_packet(*this, packet); }
    void on_sent(Route& route, bool good) override { engine.on_sent(route, good); }
    void on_read(void* who, bool good) override { engine.on_read(*this, *static_cast<Op*>(who), good); }
    Engine& engine;
    std::unique_ptr<Wire> wire;
    std::string suffix;
    ContextId context;  // of the listener
    bool listens = false;
    int watched_fd = -1;
    std::vector<std::pair<Op*, bool>> ended_reads;  // shm: told one poll later
  };

  // PeerHost.
  void connect(Peer& peer) override;
  void keep_turning(Peer& peer) override;
  MonoTime begin_grace() override;
  void stranger_asked(Peer& peer) override { strangers_.asked(&peer); }
  void look_at_pages() override;
  OfiCounters& counters() override { return counters_; }

  // engine.cc
  Result<PostResult> post(const Post& post, bool receive, bool unexpected);
  Peer& add_peer();
  void settle();
  void lose_peer(Peer& peer, Errc status);

  // engine_events.cc
  bool poll();
  bool poll_wire(Entry& entry);
  bool turn_all();
  void on_packet(Entry& entry, ByteView bytes);
  void on_sent(Route& route, bool good);
  void on_read(Entry& entry, Op& op, bool good);
  void sweep();
  void sweep_peer(Peer& peer, MonoTime now, Wire*& hung);
  void quieten(Wire& wire);
  void reopen(Wire& wire);
  void connect_again(Peer& peer, const Result<void>& opened);
  Duration time_to_next_look() const;
  void begin_parting();
  void wake();
  void complain(const std::string& who, std::string_view what);

  // engine_connect.cc
  Result<Entry*> add_wire(const WireOptions& options, std::string suffix);
  Result<void> watch_wire(Entry& entry);
  WireOptions wire_options(const Target& target) const;
  Result<Entry*> outbound_wire(const Target& target);
  Result<void> begin_session(Peer& peer);
  Result<void> say_hello(Peer& peer);
  void attempt_failed(Peer& peer, std::string why);
  bool send_alone(Peer& peer, const PacketHeader& header, const Bytes& payload);
  void on_hello(Entry& entry, ByteView payload);
  Peer* stranger(Entry& entry, const Hello& hello);
  void note_stranger_dropped(const Peer& peer, std::string_view why);
  Peer* returning_peer(Entry& entry, const Hello& hello);
  bool said_before(Peer& peer, const Hello& hello);
  void refuse(Entry& entry, const Hello& hello, Errc status);
  void welcome_peer(Entry& entry, Peer& peer, const Hello& hello);
  bool say_welcome(Peer& peer, std::uint64_t session);
  void on_welcome(Peer& peer, ByteView payload);
  void open_session(Peer& peer);
  static UniqueFd watch_process(const Wire& wire, std::uint32_t pid);

  const Clock& clock_;
  const OfiOptions ofi_options_;
  Sink* sink_ = nullptr;
  UniqueFd epoll_;
  protocol::WakeTimer timer_;
  UniqueFd wake_;  // for a thread that sleeps while another one leaves it something to do
  std::unique_ptr<PageWatch> pages_;

  mutable BiasedMutex mutex_;  // guards everything below
  SystemRandom random_;
  protocol::ModuleState state_;
  protocol::PeerTable<Peer> peers_;
  Strangers<Peer*> strangers_;                         // connected, not admitted
  std::unordered_map<std::uint64_t, Peer*> sessions_;  // by what their packets carry
  std::list<Entry> wires_;
  std::map<std::string, Entry*> outbound_;   // by provider and host
  std::vector<MutableByteView> registered_;  // explicitly: wires to come register it, too
  std::vector<Peer*> turning_;
  std::vector<Peer*> turning_now_;  // scratch
  bool sleeping_ = false;           // somebody may be asleep on the descriptor
  bool woken_ = false;              // wake_ is readable
  std::uint32_t polls_ = 0;
  std::uint32_t idle_polls_ = 0;  // in a row
  MonoTime next_sweep_ = MonoTime::never();
  MonoTime parted_by_ = MonoTime::never();  // no route parts any longer then
  OfiCounters counters_;
  log::RateLimit complaints_;
  log::RateLimit strangers_log_;  // of its own: a flood of one kind hides nothing of the other
};

}  // namespace spate::bmi::ofi
