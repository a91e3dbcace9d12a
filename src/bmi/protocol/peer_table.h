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
#include "bmi/protocol/peer.h"

namespace spate::bmi::protocol {

/// P: the module's class of peers. The module's lock guards it. A peer is added by a lookup or by an inbound
/// connection. One that is inbound and has left is remembered for a while, since it keeps its PeerId when it comes
/// back.
template <typename P>
class PeerTable {
 public:
  /// Null: unknown. The peer that was found last is found again without a hash.
  P* find(PeerId id) const {
    if (found_ != nullptr && found_->id == id) return found_;
    const auto found = peers_.find(id);
    if (found == peers_.end()) return nullptr;
    return found_ = found->second.get();
  }
  /// `make`: makes the peer of an id.
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
  /// `peer`, inbound and admitted, is the one of its link from now on. Returns the one before it, or null.
  P* set_inbound(P& peer) {
    const auto [known, fresh] = inbound_.try_emplace(peer.link_id, &peer);
    return fresh ? nullptr : std::exchange(known->second, &peer);
  }
  /// Inbound and admitted peers that have not left.
  std::size_t inbound_connected() const { return inbound_.size() - gone_.size(); }

  /// An inbound peer left. If more than `most` are remembered, the oldest one is removed from the table and returned.
  /// One with operations that the device has not let go of yet is needed for their end.
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
  mutable P* found_ = nullptr;    // by find(), last
  std::map<LinkId, P*> inbound_;  // no strangers
  std::vector<P*> gone_;          // inbound peers that left, the oldest first
};

}  // namespace spate::bmi::protocol
