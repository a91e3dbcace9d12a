// SPDX-License-Identifier: Apache-2.0
#include "rpc/slow_requests.h"

#include "log/fields.h"
#include "log/log.h"
#include "rpc/service.h"

namespace spate::rpc {
namespace {

/// A request for events waits for as long as nothing happens. (One for a lock that others hold is answered at once.)
bool waits_by_intent(wire::Op op) { return op == wire::Op::kSessionEvents; }

std::int64_t milliseconds(Duration time) { return std::chrono::duration_cast<std::chrono::milliseconds>(time).count(); }

}  // namespace

void SlowRequests::note(const Call& call, MonoTime begun, Errc status) {
  const MonoTime now = network_.executor().now();
  if (least_ == Duration::zero() || now - call.arrived < least_ || waits_by_intent(call.header.op)) return;
  count_.add();
  const auto more = lines_.admit();
  if (!more) return;
  const Credential& user = call.peer->credential;
  SPATE_LOG("rpc", warn,
            "slow request op={} took_ms={} waited_ms={} status={} client={} description={} uid={} trace={}{}",
            op_name(call.header.op), milliseconds(now - call.arrived), milliseconds(begun - call.arrived), status,
            call.header.client, log::Quoted{call.peer->description}, user.uid, call.header.trace, *more);
}

}  // namespace spate::rpc
