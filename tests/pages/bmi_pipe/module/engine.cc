// SPDX-License-Identifier: Apache-2.0
// Engine: the pipe module: the calls of the core.
#include <cerrno>
#include <utility>

#include "bmi/pipe/links.h"
#include "bmi/pipe/pipe_module.h"
#include "bmi/protocol/module_base.h"

namespace spate::bmi::pipe {
namespace {

constexpr std::uint32_t kMaxAnnounced = 8192;

/// Thread-safe; see ModuleBase. Life cycle: see Module. The destructor closes all links without waiting for peers.
class Engine final : public protocol::ModuleBase<Engine, Module, State>, private PeerHost {
 public:
  explicit Engine(const Clock& clock) : ModuleBase(clock, static_cast<PeerHost&>(*this)) {}

  std::string_view scheme() const override { return "pipe"; }
  Abilities abilities() const override { return {}; }

  Result<void> start(Sink& sink, const NetworkOptions& options) override {
    sink_ = &sink;
    state_.options = &options;
    state_.limits = protocol::limits_of(options, kMaxAnnounced);
    if (!links_.open()) return errno_error(errno, "start of the pipe module");
    return {};
  }
  Result<std::string> listen(std::string_view url, ContextId context) override {
    const std::lock_guard lock(mutex_);
    return links_.listen(url, context);
  }
  Result<PeerId> lookup(std::string_view url, Address address) override {
    SPATE_TRY(Endpoint endpoint, parse_url(url));
    if (endpoint.name == "*") return Error(Errc::kBadAddress, "\"" + std::string(url) + "\" does not name one server");
    return add_peer(url, address, std::move(endpoint));
  }
  void consumed(PeerId id, std::uint64_t charge) override {
    std::unique_lock lock(mutex_);
    Peer* const peer = state_.peers.find(id);
    if (peer != nullptr && peer->consumed(charge)) peer->flush_all();
    deliver(lock);
  }
  bool progress() override { return used() && ModuleBase::progress(); }
  int wait_descriptor() const override { return links_.descriptor(); }
  /// epoll reports levels, so whatever a turn has left shows in the descriptor.
  bool prepare_to_wait() override { return true; }

  // For ModuleBase.
  bool poll() { return links_.poll(); }
  void settle() {
    state_.take_losses([this](Peer& peer, Errc status) { links_.lose_peer(peer, status); });
  }
  void lose_peer(Peer& peer, Errc status) { links_.lose_peer(peer, status); }
  void admitted(Peer& peer) { links_.admitted(peer); }
  static void complete(const Peer& peer, PeerState& state) {
    state.same_host = true;
    if (peer.state == protocol::PeerPhase::kUp) state.reached = peer.url;
  }

 private:
  bool used() {
    const std::lock_guard lock(mutex_);
    return links_.used();
  }

  // PeerHost.
  void connect(Peer& peer) override { links_.connect(peer); }
  void watch_room(Link& link, bool watch) override { links_.watch_room(link, watch); }
  void unauthenticated_asked(Peer& peer) override { state_.unauthenticated_peers.asked(peer.link); }

  Links links_{state_};
};

}  // namespace

std::unique_ptr<Module> make_pipe_module(const Clock& clock) { return std::make_unique<Engine>(clock); }

}  // namespace spate::bmi::pipe
