// SPDX-License-Identifier: Apache-2.0
// FaultModule: a network module with planned faults. README.md describes each fault.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "bmi/fault/plan.h"
#include "bmi/module.h"

namespace spate::bmi::fault {

/// Wraps `inner`, with the same scheme and abilities. The life cycle is that of Module: construct -> start() once ->
/// other calls -> destroyed, with `inner`; what is still delayed then is lost. Thread-safe, like every module.
class FaultModule final : public Module, private Sink {
 public:
  /// The plan is shared between the test that fills it and every module that follows it, in any order of destruction.
  FaultModule(std::unique_ptr<Module> inner, std::shared_ptr<Plan> plan);
  FaultModule(const FaultModule&) = delete;
  FaultModule& operator=(const FaultModule&) = delete;

  std::string_view scheme() const override { return inner_->scheme(); }
  Abilities abilities() const override { return inner_->abilities(); }
  Result<void> start(Sink& sink, const NetworkOptions& options) override;
  Result<std::string> listen(std::string_view url, ContextId context) override;
  Result<PeerId> lookup(std::string_view url, Address address) override;
  PeerState peer_state(PeerId peer) const override { return inner_->peer_state(peer); }
  std::uint32_t connection(PeerId peer) const override { return inner_->connection(peer); }
  void disconnect(PeerId peer) override { inner_->disconnect(peer); }
  void forget_failure(PeerId peer) override { inner_->forget_failure(peer); }
  void admit(PeerId peer) override { inner_->admit(peer); }
  void set_link_key(PeerId peer, std::uint32_t connection, const Key& key) override {
    inner_->set_link_key(peer, connection, key);
  }
  Result<PostResult> post_send(const Post& post) override;
  Result<PostResult> post_recv(const Post& post) override;
  Result<PostResult> post_send_unexpected(const Post& post) override;
  void cancel(PeerId peer, OpId op) override { inner_->cancel(peer, op); }
  void consumed(PeerId peer, std::uint64_t charge) override { inner_->consumed(peer, charge); }
  bool progress() override;
  int wait_descriptor() const override { return inner_->wait_descriptor(); }
  /// Returns false while something is delayed, since delays count calls.
  bool prepare_to_wait() override;
  Result<void> mem_register(MutableByteView memory) override { return inner_->mem_register(memory); }
  Result<void> pass_descriptor(PeerId peer, Tag tag, int fd) override { return inner_->pass_descriptor(peer, tag, fd); }
  Result<UniqueFd> take_descriptor(PeerId peer, Tag tag) override { return inner_->take_descriptor(peer, tag); }
  void mem_deregister(MutableByteView memory) override { inner_->mem_deregister(memory); }
  MutableByteView mem_alloc(std::size_t size) override { return inner_->mem_alloc(size); }
  void mem_free(MutableByteView memory) override { inner_->mem_free(memory); }

 private:
  /// What is known of an operation in flight.
  struct Tracked {
    PeerId peer;
    std::vector<Segment> room;  // of receives only
  };
  struct HeldOutcome {
    std::uint64_t due = 0;  // the turn in which it is due
    Outcome outcome;
  };
  struct HeldMessage {
    std::uint64_t due = 0;
    PeerId peer;
    Address address;
    Tag tag;
    Buffer payload;
    std::uint64_t charge = 0;
    bool leaving = false;  // it is being reported; the messages behind it still wait
  };
  /// A batch of outcomes after the plan was asked about each.
  struct BatchVerdict {
    std::vector<Outcome> report;
    std::vector<PeerId> disconnect;
  };

  void completed(std::span<const Outcome> outcomes) override;
  Address inbound(PeerId peer, ContextId context) override { return sink_->inbound(peer, context); }
  void unexpected(PeerId peer, Address address, Tag tag, Buffer payload, std::uint64_t charge) override;
  void forgotten(PeerId peer, Address address) override;

  using PostCall = Result<PostResult> (Module::*)(const Post&);
  Result<PostResult> pass_post(Point point, const Post& post, PostCall call);
  Result<PostResult> done_at_once(const Post& post, const PostResult& result);
  void judge(Outcome outcome, BatchVerdict& judged);
  void apply(const Fault& fault, const Tracked& tracked, Outcome& outcome, BatchVerdict& judged);
  void hold(Outcome outcome, std::uint64_t turns);
  /// Whether the message must wait because of a fault, or behind another message that waits.
  bool hold_message(HeldMessage& message, std::uint64_t turns);
  bool report_held_outcomes(std::uint64_t turn);
  bool report_held_messages(std::uint64_t turn, PeerId only);

  const std::unique_ptr<Module> inner_;
  const std::shared_ptr<Plan> plan_;
  Sink* sink_ = nullptr;

  std::atomic<std::uint64_t> turn_{0};
  std::mutex delivery_mutex_;  // one thread at a time hands over held messages, in order; taken before mutex_
  std::mutex mutex_;
  std::unordered_map<OpId, Tracked> tracked_;  // guarded by mutex_
  std::vector<HeldOutcome> held_outcomes_;     // guarded by mutex_
  std::deque<HeldMessage> held_messages_;      // guarded by mutex_
};

}  // namespace spate::bmi::fault
