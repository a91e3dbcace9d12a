// SPDX-License-Identifier: Apache-2.0
#include "rpc/refusals.h"

#include "log/fields.h"
#include "log/log.h"

namespace spate::rpc {

void Refusals::note(const Call& call, const Error& error) {
  count_.add();
  audit_.refused(call, error);
  if (const auto more = lines_.admit()) {
    SPATE_LOG("rpc", warn, "request refused: {} peer={} op={} description={} trace={}{}", error.message(),
              log::Quoted{network_.peer_info(call.address).url}, static_cast<unsigned>(call.header.op),
              log::Quoted{call.peer->description}, call.header.trace, *more);
  }
}

void Refusals::note_dropped(const Peer& peer, std::string_view why) {
  count_.add();
  audit_.dropped(peer, why);
  if (const auto more = lines_.admit()) {
    SPATE_LOG("rpc", warn, "peer dropped: {} peer={} description={}{}", why,
              log::Quoted{network_.peer_info(peer.bound).url}, log::Quoted{peer.description}, *more);
  }
}

}  // namespace spate::rpc
