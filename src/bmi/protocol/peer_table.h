// SPDX-License-Identifier: Apache-2.0
// PeerTable: the peers of one module.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bmi/protocol/limits.h"
#include "bmi/protocol/peer_base.h"

namespace spate::bmi::protocol {

/// P: the module's class of peers. The module's lock guards it. A lookup or an inbound connection adds a peer. An
/// inbound peer that has left is remembered for a while, because it keeps its PeerId if it comes back.
template <typename P>
class PeerTable {
 public:
  /// Null: there is no such peer. The peer that was found last is found again without a hash.
  P* find(PeerId id) const {
    if (found_ != nullptr && found_->id == id) return found_;
    const auto found = peers_.find(id);
    if (found == peers_.end()) return nullptr;
    return found_ = found->second.get();
  }
  /// Adds the peer that `make(id)` returns.
  template <typename Make>
  P& add(Make make) {
    const PeerId id(++last_);
    return *peers_.emplace(id, make(id)).first->second;
  }
  const std::unordered_map<PeerId, std::unique_ptr<P>>& all() const { return peers_; }

  /// The inbound and admitted peer of the link, or null.
  P* inbound(const LinkId& link) const {
    const auto known = inbound_.find(link);
    return known == inbound_.end() ? nullptr : known->second;
  }
  /// Makes `peer`, which is inbound and admitted, the peer of its link. Returns the previous one, or null.
  P* set_inbound(P& peer) {
    const auto [known, fresh] = inbound_.try_emplace(peer.link_id, &peer);
    return fresh ? nullptr : std::exchange(known->second, &peer);
  }
  /// Inbound and admitted peers that have not left.
  std::size_t inbound_connected() const { return inbound_.size() - gone_.size(); }

  /// An inbound peer left. If more than `most` such peers are remembered, the oldest one is removed from the table and
  /// returned. A peer is kept while the device uses memory of its operations.
  std::unique_ptr<P> left(P& peer, std::size_t most) {
    gone_.push_back(&peer);
    if (gone_.size() <= most) return nullptr;
    const auto oldest = std::ranges::find_if(gone_, [](const P* p) { return p->first_op() == nullptr; });
    if (oldest == gone_.end()) return nullptr;
    const auto known = inbound_.find((*oldest)->link_id);
    if (known != inbound_.end() && known->second == *oldest) inbound_.erase(known);
    const auto found = peers_.find((*oldest)->id);
    gone_.erase(oldest);
    found_ = nullptr;
    std::unique_ptr<P> forgotten = std::move(found->second);
    peers_.erase(found);
    return forgotten;
  }
  void came_back(const P& peer) { std::erase(gone_, &peer); }

 private:
  std::uint64_t last_ = 0;
  std::unordered_map<PeerId, std::unique_ptr<P>> peers_;
  mutable P* found_ = nullptr;    // the peer that find() found last
  std::map<LinkId, P*> inbound_;  // admitted peers only
  std::vector<P*> gone_;          // inbound peers that left, the oldest first
};

}  // namespace spate::bmi::protocol
