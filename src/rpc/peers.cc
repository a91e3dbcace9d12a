// SPDX-License-Identifier: Apache-2.0
#include "rpc/peers.h"

#include <algorithm>

namespace spate::rpc {
namespace {

constexpr std::size_t kPeersBetweenPrunings = 64;

}  // namespace

Peers::RequestCount::RequestCount(Peers& peers, const std::shared_ptr<Peer>& peer)
    : peers_(peers), unauthenticated_(peer->admitted ? nullptr : peer) {
  if (unauthenticated_ == nullptr) return;
  ++unauthenticated_->under_way;
  ++peers_.unauthenticated_requests_;
}

Peers::RequestCount::~RequestCount() {
  if (unauthenticated_ == nullptr) return;
  --unauthenticated_->under_way;
  --peers_.unauthenticated_requests_;
}

std::shared_ptr<Peer> Peers::at(bmi::Address address, bmi::Address bound) {
  std::shared_ptr<Peer>& peer = peers_[address];
  if (peer != nullptr && peer->bound == bound) return peer;
  peer = std::make_shared<Peer>();  // a new connection needs a new handshake; calls under way keep the old Peer
  peer->address = address;
  peer->bound = bound;
  std::shared_ptr<Peer> found = peer;
  if (peers_.size() >= peers_after_pruning_ + kPeersBetweenPrunings) forget_the_gone();
  return found;
}

std::vector<std::shared_ptr<Peer>> Peers::authenticated() const {
  std::vector<std::shared_ptr<Peer>> list;
  for (const auto& [address, peer] : peers_) {
    if (peer->authenticated) list.push_back(peer);
  }
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a->address < b->address; });
  return list;
}

void Peers::drop(Peer& peer, std::string_view why) {
  refusals_.note_dropped(peer, why);
  peer.authenticated = false;
  network_.disconnect(peer.bound);
  peers_.erase(bmi::Address(peer.address));
}

bool Peers::has_room_for(Peer& peer) {
  if (peer.under_way > bounds_.of_one) return false;
  if (peer.admitted || unauthenticated_requests_ <= bounds_.in_all) return true;
  Peer* const busiest = busiest_unauthenticated();
  if (busiest == nullptr || busiest == &peer) return busiest == nullptr;
  drop(*busiest, "too many requests of unauthenticated peers under way, and it has most of them");
  return true;
}

Peer* Peers::busiest_unauthenticated() const {
  Peer* busiest = nullptr;
  for (const auto& [address, peer] : peers_) {
    if (peer->admitted || peer->under_way == 0) continue;
    if (busiest == nullptr || peer->under_way > busiest->under_way) busiest = peer.get();
  }
  return busiest;
}

void Peers::forget_the_gone() {
  std::erase_if(peers_, [this](const auto& entry) {
    return entry.second.use_count() == 1 && !network_.peer_info(entry.first).connected;
  });
  peers_after_pruning_ = peers_.size();
}

}  // namespace spate::rpc
