// SPDX-License-Identifier: Apache-2.0
#include "server/meta/session/session_events.h"

#include <algorithm>

#include "job/deadline.h"
#include "rpc/permits.h"

namespace spate::meta {
namespace {

/// Most requests that wait at once. Others are answered at once, and ask again.
constexpr std::size_t kMostWaiting = 512;
constexpr std::size_t kMostEvents = 256;  // in one reply

}  // namespace

void SessionEvents::start() {
  do {
    number_ = core_.random().next();
  } while (number_ == 0);
}

SessionEvents::QueuePtr SessionEvents::queue_of(const rpc::Call& call) {
  QueuePtr& queue = queues_[call.header.client];
  if (queue == nullptr || queue->epoch < call.header.session_epoch) {
    if (queue != nullptr) queue->finish();
    queue = std::make_shared<Queue>(call.header.session_epoch, core_.executor());
  }
  return queue;
}

bool SessionEvents::listen(const rpc::Call& call) {
  const QueuePtr queue = queue_of(call);
  return queue->epoch == call.header.session_epoch && !queue->over;
}

std::uint64_t SessionEvents::tell(ClientId client, std::uint32_t epoch, wire::SessionEventType type,
                                  std::uint64_t subject) {
  const auto found = queues_.find(client);
  if (found == queues_.end() || found->second->epoch != epoch) return 0;
  Queue& queue = *found->second;
  queue.events.push_back({++queue.last_number, type, subject});
  queue.wake();
  return queue.last_number;
}

void SessionEvents::end(ClientId client, std::uint32_t below_epoch) {
  const auto found = queues_.find(client);
  if (found == queues_.end() || found->second->epoch >= below_epoch) return;
  found->second->finish();
  queues_.erase(found);
}

void SessionEvents::drop_acknowledged(const rpc::Call& call, Queue& queue, std::uint64_t acknowledged) {
  Leases* const leases = core_.parts().leases;
  while (!queue.events.empty() && queue.events.front().number <= acknowledged) {
    const wire::SessionEvent event = queue.events.front();
    queue.events.pop_front();
    if (event.type != wire::SessionEventType::kLeaseRecalled || leases == nullptr) continue;
    leases->acknowledged(call.header.client, queue.epoch, event);
  }
}

job::Task<void> SessionEvents::wait_for_event(const rpc::Call& call, QueuePtr queue, Duration longest) {
  const std::uint64_t mine = queue->polls;
  ++waiting_;
  job::DeadlineScope scope(core_.executor(), core_.executor().now() + longest, call.stop);
  const rpc::ReleasedPermit released(call);
  while (queue->events.empty() && queue->polls == mine && !queue->over) {
    const auto woken = co_await queue->changed.wait(scope.token());
    if (!woken) break;
  }
  --waiting_;
}

job::Task<Result<wire::SessionEventsReply>> SessionEvents::fetch(rpc::Call& call, wire::SessionEventsRequest request) {
  SPATE_CO_TRY(std::ignore, core_.parts().sessions->admit(call));
  if (call.peer->kind == wire::PeerKind::kServer)
    co_return Error::told(Errc::kInvalidArgument, "servers are told no events");
  wire::SessionEventsReply reply;
  reply.table = number_;
  if (request.table != 0 && request.table != number_) co_return reply;
  const QueuePtr queue = queue_of(call);
  drop_acknowledged(call, *queue, request.acknowledged);
  Leases* const leases = core_.parts().leases;
  if (leases != nullptr) leases->heard(call.header.client, call.header.session_epoch, request.table == number_);
  ++queue->polls;
  queue->wake();  // answers an older request for events, whose connection is gone
  if (waiting_ < kMostWaiting && queue->epoch == call.header.session_epoch) {
    const Duration longest =
        std::min<Duration>(std::chrono::milliseconds(request.hold_ms), core_.options().session_lease / 3);
    co_await wait_for_event(call, queue, longest);
  }
  if (queue->over) co_return Errc::kSessionFenced;
  const std::size_t n = std::min(queue->events.size(), kMostEvents);
  // Even a request that a newer one has ended gets events: a client trusts its leases after a reply without recalls.
  reply.events.assign(queue->events.begin(), queue->events.begin() + static_cast<std::ptrdiff_t>(n));
  co_return reply;
}

}  // namespace spate::meta
