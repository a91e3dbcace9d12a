// SPDX-License-Identifier: Apache-2.0
// ModuleBase: the functions of Module that all modules with this protocol implement alike.
#pragma once

#include <cstdint>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/biased_mutex.h"
#include "bmi/module.h"
#include "bmi/protocol/shared_state.h"

namespace spate::bmi::protocol {

/// `Module` is the class of the module, which derives from this one; `Interface` is its interface, and `State` is a
/// SharedState. The module sets sink_ in start() and has these functions, which are called with the lock held:
///   bool poll(): one turn of the device; returns whether it did anything;
///   void settle(): loses the peers that are to be lost later (SharedState::take_losses);
///   void lose_peer(Peer&, Errc): closes the peer's connection and ends its operations with that status;
///   void admitted(Peer&): the peer is admitted;
///   static void complete(const Peer&, PeerState&): adds what only this module knows of the peer.
///
/// Thread-safe: one lock guards everything except the delivery to the sink. One thread at a time delivers, without the
/// lock (bmi/outbox.h).
template <typename Module, typename Interface, typename State>
class ModuleBase : public Interface {
 public:
  ModuleBase(const ModuleBase&) = delete;
  ModuleBase& operator=(const ModuleBase&) = delete;

  PeerState peer_state(PeerId id) const final {
    const std::lock_guard lock(mutex_);
    const auto* peer = state_.peers.find(id);
    if (peer == nullptr) return {};
    PeerState state = peer->describe();
    Module::complete(*peer, state);
    return state;
  }
  std::uint32_t connection(PeerId id) const final {
    const std::lock_guard lock(mutex_);
    const auto* peer = state_.peers.find(id);
    return peer == nullptr ? 0 : peer->connection();
  }
  void disconnect(PeerId id) final {
    std::unique_lock lock(mutex_);
    if (auto* peer = state_.peers.find(id)) self().lose_peer(*peer, Errc::kConnectionLost);
    deliver(lock);
  }
  void forget_failure(PeerId id) final {
    const std::lock_guard lock(mutex_);
    if (auto* peer = state_.peers.find(id)) peer->failure.clear();
  }
  void admit(PeerId id) final {
    std::unique_lock lock(mutex_);
    auto* peer = state_.peers.find(id);
    if (peer == nullptr || peer->state != PeerPhase::kUp || !std::exchange(peer->unauthenticated, false)) return;
    self().admitted(*peer);
    deliver(lock);
  }
  Result<PostResult> post_send(const Post& post) final { return self().post(post, false, false); }
  Result<PostResult> post_recv(const Post& post) final { return self().post(post, true, false); }
  Result<PostResult> post_send_unexpected(const Post& post) final { return self().post(post, false, true); }
  void cancel(PeerId id, OpId op_id) final {
    std::unique_lock lock(mutex_);
    Op* op = state_.find_op(op_id);
    auto* peer = state_.peers.find(id);
    if (op != nullptr && op->peer == peer) peer->cancel(*op);
    deliver(lock);
  }
  bool progress() override {
    // A thread waits here while another one is inside. If it returned instead, it would spin, because the descriptor
    // stays readable until the other thread has fetched the events.
    std::unique_lock lock(mutex_);
    const bool did = self().poll();
    return deliver(lock) || did;
  }

  Result<PostResult> post(const Post& post, bool receive, bool unexpected) {
    std::unique_lock lock(mutex_);
    const Result<PostResult> result = begin(post, receive, unexpected);
    deliver(lock);
    return result;
  }

 protected:
  template <typename... Arguments>
  explicit ModuleBase(Arguments&&... arguments) : state_(std::forward<Arguments>(arguments)...) {}
  ~ModuleBase() override = default;

  /// Adds a peer for lookup(). `remote`: the parsed URL.
  template <typename Remote>
  PeerId add_peer(std::string_view url, Address address, Remote remote) {
    const std::lock_guard lock(mutex_);
    auto& peer = state_.add_peer();
    peer.looked_up(url, address, state_.random);
    peer.remote = std::move(remote);
    return peer.id;
  }
  /// Call it with the lock held.
  Result<PostResult> begin(const Post& post, bool receive, bool unexpected) {
    auto* peer = state_.peers.find(post.peer);
    if (peer == nullptr) return Errc::kConnectionLost;
    return peer->post(post, receive, unexpected);
  }
  /// Ends a call that holds the lock, and releases it. Returns whether there was anything to deliver.
  bool deliver(std::unique_lock<BiasedMutex>& lock) {
    self().settle();
    return state_.outbox.deliver(lock, *sink_);
  }

  Sink* sink_ = nullptr;       // set by the module's start()
  mutable BiasedMutex mutex_;  // guards the state
  /// The peers live here, so they are destroyed after the members of the module that derives from this class. A peer's
  /// destructor must therefore not call the module, to which the peer may hold a reference.
  State state_;

 private:
  Module& self() { return static_cast<Module&>(*this); }
};

}  // namespace spate::bmi::protocol
