// SPDX-License-Identifier: Apache-2.0
#include "bmi/protocol/peer_log.h"

#include <string>

#include "log/fields.h"

namespace spate::bmi::protocol {

void PeerLog::connect_failed(std::string_view url, std::string_view why) {
  if (const auto more = connects_.admit()) {
    SPATE_LOG(module_, warn, "connect failed url={} reason={}{}", url, log::Quoted{why}, *more);
  }
}

void PeerLog::peer_dropped(std::string_view who, std::string_view why) {
  if (const auto more = peers_.admit()) {
    SPATE_LOG(module_, warn, "peer dropped peer={} reason={}{}", who, log::Quoted{why}, *more);
  }
}

void PeerLog::versions_differ(std::string_view who, const Versions& its, const Versions& own) {
  peer_dropped(who, "speaks versions " + std::to_string(its.min) + " to " + std::to_string(its.max) +
                        " of the module's protocol, this side " + std::to_string(own.min) + " to " +
                        std::to_string(own.max) + ": upgrade the older one");
}

void PeerLog::not_connected(std::string_view url, std::string_view why) const {
  SPATE_LOG(module_, debug, "not connected url={} reason={}", url, log::Quoted{why});
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
