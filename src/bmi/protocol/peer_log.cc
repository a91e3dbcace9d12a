// SPDX-License-Identifier: Apache-2.0
#include "bmi/protocol/peer_log.h"

#include "log/fields.h"

namespace spate::bmi::protocol {

void PeerLog::peer_dropped(std::string_view who, std::string_view why) {
  if (const auto more = peers_.admit()) {
    SPATE_LOG(module_, warn, "peer dropped peer={} reason={}{}", who, log::Quoted{why}, *more);
  }
}

void PeerLog::unauthenticated_dropped(std::string_view who, std::string_view why) {
  if (const auto more = unauthenticated_peers_.admit()) {
    SPATE_LOG(module_, warn, "unauthenticated peer dropped: {} peer={}{}", why, who, *more);
  }
}

void PeerLog::out_of_descriptors() {
  if (const auto more = peers_.admit()) {
    SPATE_LOG(module_, error, "connection refused: out of file descriptors (raise ulimit -n){}", *more);
  }
}

}  // namespace spate::bmi::protocol
