// SPDX-License-Identifier: Apache-2.0
// Engine: the shm module's state and its parts: posts and delivery (engine.cc), turns and events (engine_events.cc),
// connecting and accepting (engine_connect.cc).
#pragma once

#include <sys/epoll.h>

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/biased_mutex.h"
#include "base/random.h"
#include "base/unique_fd.h"
#include "bmi/protocol/acceptor.h"
#include "bmi/protocol/peer_table.h"
#include "bmi/protocol/wake_timer.h"
#include "bmi/shm/arena.h"
#include "bmi/shm/link.h"
#include "bmi/shm/peer.h"
#include "bmi/shm/shm_module.h"
#include "bmi/strangers.h"
#include "log/rate_limit.h"

namespace spate::bmi::shm {

/// Thread-safe. One lock guards everything except the delivery to the sink: one thread at a time delivers, without the
/// lock (bmi/outbox.h). Life cycle: see Module. The destructor closes all links without waiting for peers.
///
/// The module reads a **polled** link each turn. The peers of the other links ring a bell when they have written
/// something. When a thread goes to sleep, no link is polled.
class Engine final : public ShmModule, private PeerHost {
 public:
  Engine(const Clock& clock, ShmOptions options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() override = default;

  std::string_view scheme() const override { return "shm"; }
  Abilities abilities() const override { return Abilities{.passes_descriptors = true, .sends_at_once = true}; }
  Result<void> start(Sink& sink, const NetworkOptions& options) override;
  Result<std::string> listen(std::string_view url, ContextId context) override;
  Result<PeerId> lookup(std::string_view url, Address address) override;
  PeerState peer_state(PeerId peer) const override;
  std::uint32_t connection(PeerId peer) const override;
  void disconnect(PeerId peer) override;
  void admit(PeerId peer) override;
  Result<PostResult> post_send(const Post& post) override;
  Result<PostResult> post_recv(const Post& post) override;
  Result<PostResult> post_send_unexpected(const Post& post) override;
  bool send_at_once(const Post& post, bool unexpected) override;
  void cancel(PeerId peer, OpId op) override;
  void consumed(PeerId peer, std::uint64_t charge) override;
  bool progress() override;
  int wait_descriptor() const override { return epoll_.get(); }
  bool also_wait_for(int fd) override;
  void stop_waiting_for(int fd) override { (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }
  bool prepare_to_wait() override;
  Result<void> pass_descriptor(PeerId peer, Tag tag, int fd) override;
  Result<UniqueFd> take_descriptor(PeerId peer, Tag tag) override;
  MutableByteView mem_alloc(std::size_t size) override;
  void mem_free(MutableByteView memory) override;
  ShmCounters counters() const override;
  std::vector<ModuleCount> counts() const override;

 private:
  struct Listener : Pollable {
    Listener() : Pollable(Kind::kListener) {}
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;
    ~Listener();  // removes the socket's file
    UniqueFd socket;
    ContextId context;
    std::string url;
    std::string path;  // empty: abstract
    std::uint64_t inode = 0;
  };

  // PeerHost.
  void connect(Peer& peer) override;
  void keep_turning(Peer& peer) override;
  bool read_notes(Link& link) override;
  void begin_grace(Peer& peer, Op& op) override;
  void stranger_asked(Peer& peer) override { strangers_.asked(peer.link); }
  const ArenaPool& arenas() const override { return arenas_; }
  ShmCounters& counters() override { return counters_; }

  // engine.cc
  Result<PostResult> post(const Post& post, bool receive, bool unexpected);
  Peer& add_peer();
  void settle();
  void lose_peer(Peer& peer, Errc status);

  // engine_events.cc
  bool poll();
  bool turn_all();
  bool turn_bulk();
  void rest_if_idle(Link& link);
  void activate(Link& link);
  void deactivate(Link& link);
  bool look_at_events();
  void on_event(Pollable& pollable, std::uint32_t events);
  void on_socket(Link& link);
  void on_hangup(Link& link);
  bool on_note(Link& link, Packet& packet);
  bool expire();
  void on_deadline(Link& link);
  bool watch(int fd, std::uint32_t events, Pollable& pollable);
  void complain(const std::string& who, std::string_view what);

  // engine_connect.cc
  Link* add_link(UniqueFd socket, Side side);
  void close_link(Link* link);
  void accept_from(Listener& listener);
  void accepted(UniqueFd socket, Listener& listener);
  void on_hello(Link& link);
  bool lets_in(Link& link, const Packet& packet, Welcome& welcome, Hello& hello);
  bool welcome_peer(Link& link, const Hello& hello, Welcome welcome, UniqueFd bell);
  void drop_stranger(Link& link, std::string_view why);
  Peer& stranger(Link& link, const Hello& hello);
  Peer& returning_peer(Link& link, const Hello& hello);
  void refuse(Link& link, const Welcome& welcome, std::string_view why);
  void try_connect(Link& link);
  bool say_hello(Link& link);
  void on_welcome(Link& link);
  Result<void> accept_welcome(Link& link, Packet& packet, Limits& limits);
  void attempt_failed(Peer& peer, std::string why);

  const Clock& clock_;
  const ShmOptions shm_options_;
  const std::uint32_t own_uid_;
  Sink* sink_ = nullptr;
  UniqueFd epoll_;
  protocol::WakeTimer timer_;
  UniqueFd wake_;  // for a thread that sleeps while another one leaves it something to do
  protocol::Acceptor acceptor_;
  Pollable timer_pollable_{Pollable::Kind::kTimer};
  Pollable foreign_pollable_{Pollable::Kind::kForeign};

  mutable BiasedMutex mutex_;  // guards everything below
  SystemRandom random_;
  ArenaPool arenas_;
  protocol::ModuleState state_;
  protocol::PeerTable<Peer> peers_;
  std::unordered_map<Link*, std::unique_ptr<Link>> links_;
  std::vector<std::unique_ptr<Link>> graveyard_;  // closed; an event of this turn may still point at them
  std::vector<std::unique_ptr<Listener>> listeners_;
  Strangers<Link*> strangers_;  // accepted, no hello yet, or their peer is not admitted
  std::vector<Link*> polled_;
  std::size_t next_bulk_ = 0;  // of polled_: whose bulk comes first
  std::uint32_t turns_without_bulk_ = 0;
  std::uint64_t since_events_ = 0;  // turns, weighed by the work done in them, since epoll was asked
  bool sleeping_ = false;           // somebody may be asleep on the descriptor
  bool used_ = false;               // there was a listener or a link; else epoll need not be asked
  bool active_ = false;             // something was found since prepare_to_wait() looked last
  MonoTime spin_until_;
  protocol::Deadlines<Link> deadlines_{timer_};
  ShmCounters counters_;
  log::RateLimit complaints_;
  log::RateLimit strangers_log_;  // of its own: a flood of one kind hides nothing of the other
};

}  // namespace spate::bmi::shm
