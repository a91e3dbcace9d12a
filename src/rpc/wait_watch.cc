// SPDX-License-Identifier: Apache-2.0
#include "rpc/wait_watch.h"

#include <fmt/core.h>

#include <chrono>

#include "log/fields.h"
#include "log/log.h"

namespace spate::rpc {
namespace {

constexpr Duration kPeriod = std::chrono::seconds(1);
constexpr Duration kNotice = std::chrono::seconds(3);

std::string reason(Errc why, const std::string& unreached) {
  if (!unreached.empty()) return "it cannot be reached: " + unreached;
  switch (why) {
    case Errc::kUnreachable: return "it cannot be reached";
    case Errc::kConnectionLost: return "its connection was lost";
    case Errc::kBusy: return "it is busy";
    case Errc::kProtocol: return "the program that answers there is not a Spate server";
    default: return "it does not answer";
  }
}

ServerWait wait_of(const Channel& channel, const Channel::Waiting& waiting, MonoTime now) {
  return {channel.name(), now - waiting.since, reason(waiting.why, channel.unreached()), ServerWait::State::kBegun};
}

}  // namespace

std::string text_of(const ServerWait& wait) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(wait.waited).count();
  return fmt::format("{} for {} s: {}", wait.server, seconds, wait.why);
}

void log_wait(const ServerWait& wait) {
  if (wait.state == ServerWait::State::kOver) {
    SPATE_LOG("client", info, "goes on server={}", log::Quoted{wait.server});
  } else if (wait.state == ServerWait::State::kBegun) {
    SPATE_LOG("client", warn, "operations wait server={} for_s={} why={}", log::Quoted{wait.server},
              std::chrono::duration_cast<std::chrono::seconds>(wait.waited).count(), log::Quoted{wait.why});
  }
}

WaitWatch::WaitWatch(job::Executor& executor, std::function<void(const ServerWait&)> tell)
    : executor_(executor), tell_(std::move(tell)), gate_(executor) {}

void WaitWatch::begin() {
  if (stopping_.stopped()) return;
  looking_ = true;
  job::spawn(gate_, look());
}

job::Task<void> WaitWatch::stop() {
  stopping_.request_stop();
  co_await gate_.close();
}

job::Task<void> WaitWatch::look() {
  for (bool calls = true; calls;) {
    const auto slept = co_await executor_.sleep(kPeriod, stopping_);
    if (!slept) break;
    calls = look_once();
  }
  looking_ = false;
}

/// Reports waits that began or ended. Returns whether any call is under way.
bool WaitWatch::look_once() {
  bool any = false;
  for (Watched& one : watched_) {
    const auto waiting = one.channel->waiting();
    any = any || waiting.has_value();
    const bool long_ago = waiting && executor_.now() - waiting->since >= kNotice;
    if (!long_ago && !one.told) continue;
    ServerWait wait =
        long_ago ? wait_of(*one.channel, *waiting, executor_.now()) : ServerWait{one.channel->name(), Duration(0), {}};
    if (!long_ago) {
      wait.state = ServerWait::State::kOver;
    } else if (one.told) {
      wait.state = ServerWait::State::kLasts;
    }
    one.told = long_ago;
    tell_(wait);
  }
  return any;
}

std::vector<ServerWait> waits_for(const std::vector<const Channel*>& channels, MonoTime now, Duration least) {
  std::vector<ServerWait> all;
  for (const Channel* channel : channels) {
    const auto waiting = channel->waiting();
    if (waiting && now - waiting->since >= least) all.push_back(wait_of(*channel, *waiting, now));
  }
  return all;
}

}  // namespace spate::rpc
