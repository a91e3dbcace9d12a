// SPDX-License-Identifier: Apache-2.0
// Outbox: collects a module's reports to the core under the module's lock, and delivers them without it.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "bmi/module.h"

namespace spate::bmi {

/// `Peer` has id, address and context. Call all functions with the module's lock held. One thread at a time delivers;
/// it also delivers the reports that other threads add meanwhile.
template <typename Peer>
class Outbox {
 public:
  Outbox() = default;
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  void completed(const Outcome& outcome) { gather().outcomes.push_back(outcome); }
  /// Reports a new inbound peer. The peer must live until its removal was delivered.
  void inbound(Peer& peer) { gather().deliveries.push_back(Delivery{&peer, true, Tag(), Buffer(), 0}); }
  void unexpected(Peer& peer, Tag tag, Buffer payload, std::uint64_t charge) {
    gather().deliveries.push_back(Delivery{&peer, false, tag, std::move(payload), charge});
  }
  void forgotten(std::unique_ptr<Peer> peer) { gather().forgotten.push_back(std::move(peer)); }
  /// Whether there are reports that no thread has begun to deliver.
  bool waiting() const { return gathered_->any; }

  /// Releases the lock and delivers all reports, unless another thread is delivering. Returns whether there was
  /// anything.
  template <typename Mutex>
  bool deliver(std::unique_lock<Mutex>& lock, Sink& sink) {
    bool any = false;
    while (take()) {
      any = true;
      lock.unlock();
      taken_->deliver_to(sink);
      lock.lock();
      delivering_ = false;
    }
    lock.unlock();
    return any;
  }

 private:
  /// A new inbound peer, or an unexpected message.
  struct Delivery {
    Peer* peer = nullptr;
    bool inbound = false;
    Tag tag;
    Buffer payload;
    std::uint64_t charge = 0;
  };
  struct Reports {
    std::vector<Delivery> deliveries;
    std::vector<Outcome> outcomes;
    std::vector<std::unique_ptr<Peer>> forgotten;
    bool any = false;  // each call of the module asks for it; a look at three vectors would cost it 2 % of a message

    /// Delivers everything; keeps the memory for the next reports.
    void deliver_to(Sink& sink) {
      for (Delivery& d : deliveries) {
        if (d.inbound) {
          d.peer->address = sink.inbound(d.peer->id, d.peer->context);
        } else {
          sink.unexpected(d.peer->id, d.peer->address, d.tag, std::move(d.payload), d.charge);
        }
      }
      deliveries.clear();
      if (!outcomes.empty()) sink.completed(outcomes);
      outcomes.clear();
      for (const std::unique_ptr<Peer>& peer : forgotten) sink.forgotten(peer->id, peer->address);
      forgotten.clear();
      any = false;
    }
  };

  Reports& gather() {
    gathered_->any = true;
    return *gathered_;
  }

  bool take() {
    if (delivering_ || !gathered_->any) return false;
    delivering_ = true;
    std::swap(gathered_, taken_);
    return true;
  }

  std::array<Reports, 2> reports_;
  Reports* gathered_ = &reports_[0];
  Reports* taken_ = &reports_[1];  // belongs to the thread that set delivering_, which needs no lock for it
  bool delivering_ = false;
};

}  // namespace spate::bmi
