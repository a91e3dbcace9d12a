// SPDX-License-Identifier: Apache-2.0
// reserve_handles: sets handles aside for objects that a session will make by queued changes.
#include "server/meta/names/operations.h"

namespace spate::meta {

Outcome<wire::ReserveHandlesReply> reserve_handles(Operation& /*operation*/,
                                                   const wire::ReserveHandlesRequest& /*request*/) {
  co_return Errc::kNotSupported;
}

}  // namespace spate::meta
