// SPDX-License-Identifier: Apache-2.0
// The core over two scripted modules, and one context of it. For tests.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/expect.h"
#include "base/unique_fd.h"
#include "bmi/fake_module.h"
#include "bmi/network.h"

namespace spate::bmi {

class CoreTest : public testing::Test {
 protected:
  CoreTest() {
    std::vector<std::unique_ptr<Module>> modules;
    modules.push_back(std::make_unique<FakeModule>("a"));
    modules.push_back(std::make_unique<FakeModule>("b"));
    a_ = static_cast<FakeModule*>(modules[0].get());
    b_ = static_cast<FakeModule*>(modules[1].get());
    a_->descriptor = event_.get();
    network_ = make_network(std::move(modules));
    context_ = network_->open_context();
  }

  Address lookup(std::vector<std::string> urls) { return network_->lookup(urls).value(); }
  Message message(Address peer) {
    Message m;
    m.peer = peer;
    m.tag = Tag(9);
    m.segments = segments_;
    return m;
  }
  Posted post(Address peer, void* user = nullptr) { return network_->post_send(message(peer), context_, user).value(); }
  std::vector<Completion> completions(ContextId context) {
    std::array<Completion, 16> out;
    const std::size_t n = network_->test_context(context, out);
    return {out.begin(), out.begin() + static_cast<std::ptrdiff_t>(n)};
  }
  testing::AssertionResult readable(ContextId context) const {
    pollfd fd{network_->wait_descriptor(context), POLLIN, 0};
    if (::poll(&fd, 1, 0) == 1) return testing::AssertionSuccess() << "the wait descriptor is readable";
    return testing::AssertionFailure() << "the wait descriptor is not readable";
  }

  UniqueFd event_{eventfd(0, EFD_NONBLOCK)};
  std::array<std::byte, 8> memory_{};
  std::array<Segment, 1> segments_{Segment::of(MutableByteView(memory_))};
  FakeModule* a_ = nullptr;
  FakeModule* b_ = nullptr;
  std::unique_ptr<Network> network_;
  ContextId context_;
};

}  // namespace spate::bmi
