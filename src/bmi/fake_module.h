// SPDX-License-Identifier: Apache-2.0
// FakeModule: a scripted Module for tests of the core.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bmi/module.h"

namespace spate::bmi {

/// Records the core's calls; the test decides what completes. One thread, unless a test says otherwise.
class FakeModule final : public Module {
 public:
  struct Posted {
    Post post;
    std::vector<Segment> segments;
    bool receive = false;
    bool unexpected = false;
  };

  explicit FakeModule(std::string scheme) : scheme_(std::move(scheme)) {}

  std::string_view scheme() const override { return scheme_; }
  Abilities abilities() const override { return {.sends_at_once = sends_at_once}; }
  Result<void> start(Sink& s, const NetworkOptions& /*options*/) override {
    if (fail_start) return Error(Errc::kNotSupported, "no such hardware");
    sink = &s;
    return {};
  }
  Result<std::string> listen(std::string_view url, ContextId context) override {
    listening = context;
    return std::string(url);
  }
  Result<PeerId> lookup(std::string_view url, Address address) override {
    if (url.find("bad") != std::string_view::npos) return Error(Errc::kBadAddress, std::string(url));
    const PeerId peer(++last_peer_);
    urls[peer] = std::string(url);
    addresses[peer] = address;
    return peer;
  }
  PeerState peer_state(PeerId peer) const override {
    PeerState state;
    state.url = urls.at(peer);
    state.connections = connections;
    if (const auto failure = failures.find(peer); failure != failures.end()) state.failure = failure->second;
    return state;
  }
  void disconnect(PeerId peer) override { disconnected.push_back(peer); }
  void forget_failure(PeerId peer) override { failures.erase(peer); }
  Result<PostResult> post_send(const Post& post) override { return take(post, false, false); }
  Result<PostResult> post_recv(const Post& post) override { return take(post, true, false); }
  Result<PostResult> post_send_unexpected(const Post& post) override { return take(post, false, true); }
  bool send_at_once(const Post& post, bool unexpected) override {
    ++asked_to_send_at_once;
    if (!room) return false;
    (void)take(post, false, unexpected);
    return true;
  }
  void cancel(PeerId /*peer*/, OpId op) override { cancelled.push_back(op); }
  void consumed(PeerId peer, std::uint64_t charge) override { given_back.emplace_back(peer, charge); }
  bool progress() override {
    ++progressed;
    return false;
  }
  int wait_descriptor() const override { return descriptor; }
  bool prepare_to_wait() override { return !has_work; }
  bool has_wait() const override { return sleeps; }
  bool also_wait_for(int fd) override {
    if (sleeps) waits_for.push_back(fd);
    return sleeps;
  }
  bool wait(Duration /*timeout*/) override {
    if (sleeps) ++waits;
    return sleeps;
  }
  Result<void> mem_register(MutableByteView memory) override {
    registered.push_back(memory.data());
    return {};
  }
  void mem_deregister(MutableByteView memory) override { std::erase(registered, memory.data()); }

  void complete(OpId op, Errc status = Errc::kOk, std::uint64_t size = 0) {
    const Outcome outcome{op, status, size};
    sink->completed(std::span(&outcome, 1));
  }
  OpId last() const { return posts.back().post.op; }

  Sink* sink = nullptr;
  bool fail_start = false;
  bool at_once = false;        // posts complete immediately
  bool sends_at_once = false;  // set it before lookups
  bool room = true;            // for messages that leave at once
  int asked_to_send_at_once = 0;
  Errc refuse = Errc::kOk;  // posts fail
  bool has_work = false;    // prepare_to_wait() says no
  int descriptor = -1;
  bool sleeps = false;  // it has a wait of its own
  int waits = 0;
  std::vector<int> waits_for;
  std::uint32_t connections = 0;
  int progressed = 0;
  ContextId listening;
  std::map<PeerId, std::string> urls;
  std::map<PeerId, Address> addresses;
  std::map<PeerId, std::string> failures;
  std::vector<Posted> posts;
  std::vector<PeerId> disconnected;
  std::vector<OpId> cancelled;
  std::vector<std::pair<PeerId, std::uint64_t>> given_back;
  std::vector<std::byte*> registered;

 private:
  Result<PostResult> take(const Post& post, bool receive, bool unexpected) {
    if (refuse != Errc::kOk) return refuse;
    posts.push_back({post, {post.segments.begin(), post.segments.end()}, receive, unexpected});
    return PostResult{at_once, at_once ? post.size : 0};
  }

  std::string scheme_;
  std::uint64_t last_peer_ = 0;
};

}  // namespace spate::bmi
