// SPDX-License-Identifier: Apache-2.0
// Engine: the tcp module's state and its parts: posts and delivery (engine.cc), events (engine_events.cc), connecting
// and accepting (engine_connect.cc).
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
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
#include "bmi/strangers.h"
#include "bmi/tcp/connection.h"
#include "bmi/tcp/peer.h"
#include "bmi/tcp/resolver.h"
#include "bmi/tcp/tcp_module.h"
#include "log/rate_limit.h"

namespace spate::bmi::tcp {

/// Thread-safe. One lock guards everything except the delivery to the sink: one thread at a time delivers, without the
/// lock (bmi/outbox.h). Life cycle: see Module. The destructor closes all connections without waiting for peers.
class Engine final : public TcpModule, private PeerHost {
 public:
  Engine(const Clock& clock, TcpOptions options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() override = default;

  std::string_view scheme() const override { return "tcp"; }
  Abilities abilities() const override { return Abilities{.sends_files_in_kernel = true}; }
  Result<void> start(Sink& sink, const NetworkOptions& options) override;
  Result<std::string> listen(std::string_view url, ContextId context) override;
  Result<PeerId> lookup(std::string_view url, Address address) override;
  PeerState peer_state(PeerId peer) const override;
  std::uint32_t connection(PeerId peer) const override;
  void disconnect(PeerId peer) override;
  void admit(PeerId peer) override;
  void set_link_key(PeerId peer, std::uint32_t connection, const Key& key) override;
  Result<PostResult> post_send(const Post& post) override;
  Result<PostResult> post_recv(const Post& post) override;
  Result<PostResult> post_send_unexpected(const Post& post) override;
  void cancel(PeerId peer, OpId op) override;
  void consumed(PeerId peer, std::uint64_t charge) override;
  bool progress() override;
  int wait_descriptor() const override { return epoll_.get(); }
  bool also_wait_for(int fd) override;
  void stop_waiting_for(int fd) override;
  bool has_wait() const override { return true; }
  void hold_sends() override { holding_.store(true, std::memory_order_relaxed); }
  void flush_sends() override;
  bool wait(Duration timeout) override;
  /// The descriptor shows all work that is left for a later progress(): due data makes it readable (show_due), and the
  /// thread that finds a report delivers it.
  bool prepare_to_wait() override {
    slept_.store(true, std::memory_order_relaxed);
    return true;
  }
  TcpCounters counters() const override;
  std::vector<ModuleCount> counts() const override;

 private:
  struct Listener : Pollable {
    Listener() : Pollable(Kind::kListener) {}
    UniqueFd socket;
    ContextId context;
  };
  /// Handles the first frames of a connection that this side accepted, and of one that it made.
  class HelloHandler final : public FrameHandler {
   public:
    explicit HelloHandler(Engine& engine) : engine_(engine) {}
    std::size_t header_size() const override { return kHelloSize; }
    bool on_header(Connection& c, const std::byte* bytes) override { return engine_.on_hello(c, bytes); }
    void on_payload(Connection& /*c*/) override {}

   private:
    Engine& engine_;
  };
  class WelcomeHandler final : public FrameHandler {
   public:
    explicit WelcomeHandler(Engine& engine) : engine_(engine) {}
    std::size_t header_size() const override { return kWelcomeSize; }
    bool on_header(Connection& c, const std::byte* bytes) override { return engine_.on_welcome(c, bytes); }
    void on_payload(Connection& /*c*/) override {}

   private:
    Engine& engine_;
  };
  class ProofHandler final : public FrameHandler {
   public:
    explicit ProofHandler(Engine& engine) : engine_(engine) {}
    std::size_t header_size() const override { return sizeof(LinkProof); }
    bool on_header(Connection& c, const std::byte* bytes) override {
      return c.peer != nullptr ? engine_.on_acceptors_proof(c, bytes) : engine_.on_connectors_proof(c, bytes);
    }
    void on_payload(Connection& /*c*/) override {}

   private:
    Engine& engine_;
  };
  static constexpr std::size_t kEventsAtOnce = 64;
  static constexpr std::uint64_t kLeastSlice = 16 * 1024;
  // Not EPOLLOUT, except while a socket is full: an entry that read_hot() has dealt with must count as not ready.
  static constexpr std::uint32_t kConnectionEvents = EPOLLIN | EPOLLRDHUP | EPOLLET;

  // PeerHost.
  void connect_control(Peer& peer) override;
  void connect_bulk(Peer& peer) override;
  void flush(Connection& connection) override;
  void begin_grace(Connection& connection, const Op& op) override;
  bool lends(const Peer& peer) const override {
    const auto lend = tcp_options_.lend;
    return lend == TcpOptions::Lend::kAlways || (lend == TcpOptions::Lend::kAuto && !peer.same_host);
  }
  void control_arrived() override { since_control_ = 0; }
  void stranger_asked(Peer& peer) override { strangers_.asked(peer.channels[0].connection); }
  TcpCounters& counters() override { return counters_; }

  // engine.cc
  Result<PostResult> post(const Post& post, bool receive, bool unexpected);
  Peer& add_peer();
  void settle();
  void lose_peer(Peer& peer, Errc status);

  // engine_events.cc
  bool poll();
  bool take_events();
  bool handle_fetched();
  bool handle(std::span<const epoll_event> events);
  void flush_held();
  std::uint64_t flush_now(Connection& connection, std::uint64_t limit);
  bool read_hot();
  bool spin_on_hot();
  void on_event(Pollable& pollable, std::uint32_t events);
  void on_connection_event(Connection& connection, std::uint32_t events);
  struct Got {
    std::uint64_t bytes = 0;
    bool anything = false;  // or the end
  };
  Got read(Connection& connection, std::uint64_t limit);
  void connection_failed(Connection& connection, bool protocol);
  bool take_told(Connection& connection);
  bool expire();
  void set_deadline(Connection& connection, Duration from_now);
  void arm_timer();
  bool watch(int fd, std::uint32_t events, Pollable& pollable);
  void watch_again(Connection& connection);
  void block(Connection& connection);

  // engine_slices.cc
  std::uint64_t slice() const;
  bool gathers(Connection& connection);
  void make_due(Connection& connection, bool to_read);
  void serve_due();
  std::uint64_t serve(Connection& connection, std::uint64_t limit);
  bool puts_off() const;
  void show_due();

  // engine_idle.cc
  void begin_sweeps();
  bool sweep_idle();

  // engine_connect.cc
  Connection* add_connection(UniqueFd socket, FrameHandler& handler, bool bulk);
  void close_connection(Connection* connection);
  void accept_from(Listener& listener);
  void accepted(UniqueFd socket, Listener& listener);
  void drop_stranger(Connection& connection, std::string_view why);
  Peer& stranger(Connection& connection, const Hello& hello);
  Peer& returning_peer(Connection& connection, const Hello& hello);
  void connect_next_address(Peer& peer);
  bool begin_channel(Peer& peer, unsigned channel);
  void connect_ended(Connection& connection);
  bool say_hello(Connection& connection);
  void on_resolved();
  bool on_hello(Connection& connection, const std::byte* bytes);
  bool on_welcome(Connection& connection, const std::byte* bytes);
  bool accept_control(Connection& connection, const Hello& hello);
  bool accept_bulk(Connection& connection, const Hello& hello, const std::byte* bytes);
  bool begin_proof(Connection& connection, const Peer& peer, const Hello& hello, const std::byte* bytes);
  bool on_connectors_proof(Connection& connection, const std::byte* bytes);
  bool on_acceptors_proof(Connection& connection, const std::byte* bytes);
  bool open_accepted_bulk(Connection& connection, Peer& peer, unsigned channel);
  bool say_welcome(Connection& connection, const Welcome& welcome);
  bool refuse(Connection& connection, const Welcome& welcome);
  void attempt_failed(Peer& peer);
  void note_failure(Peer& peer, std::string why);
  void complain(const std::string& who, std::string_view what);

  const Clock& clock_;
  const TcpOptions tcp_options_;
  Sink* sink_ = nullptr;
  HelloHandler hello_handler_{*this};
  WelcomeHandler welcome_handler_{*this};
  ProofHandler proof_handler_{*this};
  UniqueFd epoll_;
  protocol::WakeTimer timer_;
  UniqueFd due_event_;  // readable while due_ is not empty
  protocol::Acceptor acceptor_;
  Pollable timer_pollable_{Pollable::Kind::kTimer};
  Pollable foreign_pollable_{Pollable::Kind::kForeign};

  std::atomic<bool> used_{false};      // there was a listener or a connection; else poll() has nothing to do
  std::atomic<bool> slept_{false};     // somebody went to sleep since the last poll()
  std::atomic<bool> holding_{false};   // posts leave flushing to held_
  std::atomic<bool> held_any_{false};  // held_ is not empty

  mutable BiasedMutex mutex_;  // guards everything below
  SystemRandom random_;
  protocol::ModuleState state_;
  protocol::PeerTable<Peer> peers_;
  std::unordered_map<Connection*, std::unique_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<Connection>> graveyard_;  // closed; an event of this turn may still point at them
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::unordered_map<Connection*, ContextId> half_open_;  // accepted, no hello yet; the context of their listener
  Strangers<Connection*> strangers_;                      // these, and control connections of peers not admitted
  protocol::Deadlines<Connection> deadlines_{timer_};
  MonoTime next_sweep_ = MonoTime::never();  // for idle peers
  std::unique_ptr<Resolver> resolver_;       // made at the first name
  Connection* hot_ = nullptr;                // the control connection that was read last
  int hot_hits_ = 0;                         // how often it was the right guess lately
  int hot_turns_ = 0;                        // polls in a row that looked at nothing else
  bool dry_ = false;                         // the last look at all connections, without sleep, found nothing
  std::vector<Connection*> held_;            // to be flushed: each connection once
  std::deque<Connection*> due_;              // with data that waits for its slice: each connection once
  bool due_shown_ = false;                   // due_event_ is readable
  std::uint64_t since_control_ = 0;          // bytes served of what was due since the last message of the control class
  bool put_off_ = false;                     // the last turn left due_ alone
  std::uint64_t turn_ = 1;                   // counts calls of poll()
  int posts_in_turn_ = 0;                    // sends, since the last one
  bool polling_ = false;                     // inside poll(), which serves what is due at its end
  bool posting_ = false;                     // inside a call of post() or consumed(): the ones that may hold
  std::vector<epoll_event> fetched_;         // by wait(), for the next poll()
  std::vector<epoll_event> handling_;        // the same, while they are handled
  bool fetched_all_ = false;                 // wait() saw that there is no more
  unsigned sleepers_ = 0;                    // in wait(): the events they bring may point at what is closed meanwhile
  TcpCounters counters_;
  log::RateLimit complaints_;
  log::RateLimit strangers_log_;  // of its own: a flood of one kind hides nothing of the other
  std::unique_ptr<ReceiveScratch> receive_scratch_;
  std::unique_ptr<SendScratch> send_scratch_;
};

}  // namespace spate::bmi::tcp
