// SPDX-License-Identifier: Apache-2.0
// An instance of the network with one module and one context. For the modules' tests.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/expect.h"
#include "bmi/module.h"
#include "bmi/network.h"

namespace spate::bmi {

/// Posts operations and keeps their completions. Life cycle: construct -> open() -> other calls -> destroyed. A
/// second open() replaces the instance. One thread.
class OneModule {
 public:
  void open(std::unique_ptr<Module> module, const NetworkOptions& options) {
    std::vector<std::unique_ptr<Module>> modules;
    modules.push_back(std::move(module));
    network_ = make_network(std::move(modules), options);
    context_ = network_->open_context();
  }

  Message message(Address peer, std::uint64_t tag, SegmentList segments,
                  MessageClass c = MessageClass::kControl) const {
    Message m;
    m.peer = peer;
    m.tag = Tag(tag);
    m.message_class = c;
    m.segments = segments;
    return m;
  }
  OpId noted(const Result<Posted>& posted) {
    EXPECT_OK(posted);
    if (!posted) return OpId();
    if (posted->done) done_[posted->op] = posted->completion;
    return posted->op;
  }
  OpId send(Address peer, std::uint64_t tag, ByteView data, MessageClass c = MessageClass::kControl,
            bool ready = false) {
    const std::array segments{Segment::of(data)};
    Message m = message(peer, tag, segments, c);
    m.receiver_ready = ready;
    return noted(network_->post_send(m, context_, nullptr));
  }
  OpId receive(Address peer, std::uint64_t tag, MutableByteView room, MessageClass c = MessageClass::kControl) {
    const std::array segments{Segment::of(room)};
    return noted(network_->post_recv(message(peer, tag, segments, c), context_, nullptr));
  }
  testing::AssertionResult done(OpId op) const {
    const auto found = done_.find(op);
    if (found == done_.end()) return testing::AssertionFailure() << "operation " << op.value << " has not ended";
    return testing::AssertionSuccess() << "operation " << op.value << " has ended: " << name(found->second.status);
  }

 protected:
  /// Takes the completions that have come, and keeps them.
  void keep_completions() {
    std::array<Completion, 16> done;
    const std::size_t n = network_->test_context(context_, done);
    for (std::size_t i = 0; i < n; ++i) done_[done[i].op] = done[i];
  }

  std::unique_ptr<Network> network_;
  ContextId context_;
  std::map<OpId, Completion> done_;
};

}  // namespace spate::bmi
