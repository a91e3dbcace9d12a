// SPDX-License-Identifier: Apache-2.0
// WaitWatch: reports which servers keep the calls of a client waiting.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "job/gate.h"
#include "rpc/channel.h"

namespace spate::rpc {

/// A server that calls wait for.
struct ServerWait {
  enum class State : std::uint8_t {
    kBegun,  // reported once
    kLasts,
    kOver  // the server answers again, or no call waits for it any more
  };
  std::string server;  // Channel::name()
  Duration waited{0};  // of the call that waits longest
  std::string why;     // "it cannot be reached: nobody listens there"
  State state = State::kBegun;
};

/// "server 3 (tcp://...) for 12 s: it cannot be reached: nobody listens there"
std::string text_of(const ServerWait& wait);
/// A line in the log when such a wait begins, and when it is over.
void log_wait(const ServerWait& wait);

/// One executor; pinned. It looks once a second, and only while calls are under way. Life cycle: construct -> channels
/// with it -> stop() awaited -> destroyed, after the channels.
class WaitWatch final : public ChannelObserver {
 public:
  /// Calls `tell` on the executor's thread when a wait has lasted 3 s, then once a second, and when it is over.
  WaitWatch(job::Executor& executor, std::function<void(const ServerWait&)> tell);
  WaitWatch(const WaitWatch&) = delete;
  WaitWatch& operator=(const WaitWatch&) = delete;

  void begins(const Channel& channel) override { watched_.push_back({&channel}); }
  void ends(const Channel& channel) override {
    std::erase_if(watched_, [&](const Watched& one) { return one.channel == &channel; });
  }
  void call_begins() override {
    if (!looking_) begin();
  }
  job::Task<void> stop();

 private:
  struct Watched {
    const Channel* channel;
    bool told = false;
  };
  void begin();
  job::Task<void> look();
  bool look_once();

  job::Executor& executor_;
  std::function<void(const ServerWait&)> tell_;
  std::vector<Watched> watched_;
  bool looking_ = false;
  job::StopSource stopping_;
  job::Gate gate_;
};

/// The servers that keep calls waiting for at least `least`.
std::vector<ServerWait> waits_for(const std::vector<const Channel*>& channels, MonoTime now, Duration least);

}  // namespace spate::rpc
