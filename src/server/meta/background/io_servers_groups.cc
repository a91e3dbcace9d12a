// SPDX-License-Identifier: Apache-2.0
// The requests of a meta server to the primaries of groups.
#include "server/meta/background/io_servers.h"

namespace spate::meta {
namespace {

/// The pause after a member has said that it does not lead, and before it is asked again.
constexpr Duration kAskPrimaryAgain = std::chrono::milliseconds(100);

}  // namespace

void ChannelIoServers::group_changed(const DataGroup& group) { groups_.update(group); }

Result<rpc::Channel*> ChannelIoServers::channel_of(TargetId target) {
  if (is_group(target)) {
    const DataGroup* const group = groups_.find(target);
    if (group == nullptr)
      return Error::told(Errc::kStaleMap, "there is no group of targets " + std::to_string(target.value));
    target = group->primary;
  }
  const ServerEntry* server = options_.map.server_of_target(target);
  const auto found = server == nullptr ? channels_.end() : channels_.find(server->id);
  if (found == channels_.end()) {
    return Error::told(Errc::kStaleMap,
                       "target " + std::to_string(target.value) + " is on no io server of this file system");
  }
  return found->second.get();
}

ChannelIoServers::ShareTask ChannelIoServers::at_primary(Share& share,
                                                         UniqueFunction<ShareTask(Share&, job::StopToken)> once,
                                                         job::StopToken stop) {
  if (!share.group) {
    auto done = co_await once(share, stop);
    co_return done;
  }
  const MonoTime deadline = executor_.now() + options_.deadline;
  for (;;) {
    SPATE_CO_TRY(share.channel, channel_of(share.group));
    bool moved = false;
    Result<void> done;
    {
      GroupRoutes::Attempt attempt(groups_, share.group, executor_, deadline, stop);
      done = co_await once(share, attempt.token());
      moved = attempt.moved();
    }
    const bool again = moved || done.code() == Errc::kNotPrimary;
    if (done || !again || stop.stopped() || executor_.now() + kAskPrimaryAgain >= deadline) co_return done;
    if (moved) continue;
    const auto slept = co_await executor_.sleep(kAskPrimaryAgain, stop);
    if (!slept) co_return done;
  }
}

}  // namespace spate::meta
