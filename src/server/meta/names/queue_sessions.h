// SPDX-License-Identifier: Apache-2.0
// check_may_queue: refuses sessions that may not queue changes.
#pragma once

#include "server/meta/core/operation.h"

namespace spate::meta {

/// kNotSupported: the caller has not agreed on the feature `delegates`. kPermissionDenied: its key is confined to a
/// directory.
inline Result<void> check_may_queue(Operation& operation) {
  const rpc::Call& call = operation.call();
  const bool agreed = (call.peer->features & wire::kFeatureDelegates) != 0;
  if (call.peer->kind != wire::PeerKind::kClient || !call.header.client || !agreed)
    return Error::told(Errc::kNotSupported, "only a client that has agreed on the feature `delegates` queues changes");
  if (operation.confinement() != nullptr)
    return Error::told(Errc::kPermissionDenied, "nothing is delegated to the holder of a key for one directory");
  return {};
}

}  // namespace spate::meta
