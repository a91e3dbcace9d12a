// SPDX-License-Identifier: Apache-2.0
// Outbox: what is to be reported to the core, gathered under the module's lock and delivered without it.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "bmi/module.h"
#include "bmi/ofi/peer.h"

namespace spate::bmi::ofi {

/// A new inbound peer, or an unexpected message.
struct Delivery {
  Peer* peer = nullptr;  // lives until its removal was delivered
  bool inbound = false;
  Tag tag;
  Buffer payload;
};

struct Outbox {
  std::vector<Delivery> deliveries;
  std::vector<Outcome> outcomes;
  std::vector<std::unique_ptr<Peer>> forgotten;

  bool empty() const { return deliveries.empty() && outcomes.empty() && forgotten.empty(); }

  /// One thread at a time. Leaves the outbox empty, with its memory.
  void deliver_to(Sink& sink) {
    for (Delivery& d : deliveries) {
      if (d.inbound) {
        d.peer->address = sink.inbound(d.peer->id, d.peer->context);
      } else {
        const std::uint64_t charge = cost_of(d.payload.size());
        sink.unexpected(d.peer->id, d.peer->address, d.tag, std::move(d.payload), charge);
      }
    }
    deliveries.clear();
    if (!outcomes.empty()) sink.completed(outcomes);
    outcomes.clear();
    for (const std::unique_ptr<Peer>& peer : forgotten) sink.forgotten(peer->id, peer->address);
    forgotten.clear();
  }
};

}  // namespace spate::bmi::ofi
