// SPDX-License-Identifier: Apache-2.0
// The session of a request, as the store has it.
#pragma once

#include "server/meta/core/operation.h"

namespace spate::meta {

/// Fails with kSessionUnknown or kSessionFenced unless this epoch of the client's session is open. The end of a session
/// changes its record, so one of the two transactions, the operation's or the end's, sees the other.
inline job::Task<Result<void>> check_open(Operation& operation, ClientId client, std::uint32_t epoch) {
  SPATE_CO_TRY(const auto session, co_await operation.get<SessionRecord>(session_key(client)));
  if (!session) co_return Errc::kSessionUnknown;
  const bool current = session->state == SessionState::kOpen && session->epoch == epoch;
  co_return current ? Result<void>() : Errc::kSessionFenced;
}

}  // namespace spate::meta
