// SPDX-License-Identifier: Apache-2.0
// Checks a request's session in the store.
#pragma once

#include "server/meta/core/operation.h"

namespace spate::meta {

/// Fails with kSessionUnknown or kSessionFenced unless this epoch of the client's session is open. The end of a session
/// changes its record, so if the operation and the session's end overlap, one of the two transactions sees the other.
inline job::Task<Result<void>> check_open(Operation& operation, ClientId client, std::uint32_t epoch) {
  SPATE_CO_TRY(const auto session, co_await operation.get<SessionRecord>(session_key(client)));
  if (!session) co_return Errc::kSessionUnknown;
  const bool current = session->state == SessionState::kOpen && session->epoch == epoch;
  co_return current ? Result<void>() : Errc::kSessionFenced;
}

}  // namespace spate::meta
