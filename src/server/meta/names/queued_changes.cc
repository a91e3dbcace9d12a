// SPDX-License-Identifier: Apache-2.0
// queued_changes: what a session has changed by itself in directories delegated to it.
#include "server/meta/names/operations.h"

namespace spate::meta {

Outcome<wire::QueuedChangesReply> queued_changes(Operation& /*operation*/,
                                                 const wire::QueuedChangesRequest& /*request*/) {
  co_return Errc::kNotSupported;
}

}  // namespace spate::meta
