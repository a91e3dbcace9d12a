// SPDX-License-Identifier: Apache-2.0
#include "rpc/calls.h"

#include <unordered_map>

#include "log/fields.h"
#include "log/log.h"

namespace spate::rpc {
namespace {

/// How long a call may outlive its connection.
constexpr Duration kLook = std::chrono::seconds(1);

}  // namespace

Calls::Entry::Entry(Calls& calls, const Call& call, job::StopSource& stop) : calls_(calls), call_(call), stop_(stop) {
  place_ = calls_.entries_.insert(calls_.entries_.end(), this);
  calls_.changed_.set();
}

Calls::Entry::~Entry() {
  calls_.entries_.erase(place_);
  if (newest_of_slot_) calls_.by_slot_.erase({call_.header.client, call_.header.id.slot});
}

void Calls::Entry::abandon() {
  if (abandoned_) return;
  abandoned_ = true;
  SPATE_LOG("rpc", debug, "call cancelled: its caller disconnected or sent the request again op={} client={} trace={}",
            op_name(call_.header.op), call_.header.client, call_.header.trace);
  stop_.request_stop(Errc::kCancelled);
}

void Calls::supersede(Entry& newest) {
  const Call& call = newest.call_;
  if (call.header.id.slot == wire::RequestId::kNoSlot) return;
  Entry*& known = by_slot_[{call.header.client, call.header.id.slot}];
  if (known != nullptr) {
    // A late copy that arrives on an older connection must not end the copy that the client waits for.
    if (known->call_.peer->incarnation > call.peer->incarnation) return;
    known->newest_of_slot_ = false;
    known->abandon();
  }
  known = &newest;
  newest.newest_of_slot_ = true;
}

void Calls::abandon_the_disconnected() {
  std::unordered_map<bmi::Address, bool> gone;  // so that the network is asked once for each connection
  for (Entry* entry : entries_) {
    const bmi::Address address = entry->call_.address;
    auto [known, fresh] = gone.try_emplace(address, false);
    if (fresh) known->second = network_.network().bound(address) != address;
    // Stopping a call only schedules the coroutine that awaits, so the list does not change during the loop.
    if (known->second) entry->abandon();
  }
}

job::Task<void> Calls::watch_connections(job::StopToken stop) {
  while (!stop.stopped()) {
    changed_.reset();
    if (entries_.empty()) {
      std::ignore = co_await changed_.wait(stop);
      continue;
    }
    std::ignore = co_await network_.executor().sleep(kLook, stop);
    abandon_the_disconnected();
  }
}

}  // namespace spate::rpc
