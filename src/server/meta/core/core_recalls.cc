// SPDX-License-Identifier: Apache-2.0
// The waits of an operation's run for other clients; and reads, which have no other waits.
#include "rpc/permits.h"
#include "server/meta/core/core.h"

namespace spate::meta {

/// Waits until no other client has a lease on what this run changes. So every client sees the change after its commit.
job::Task<Result<void>> MetaCore::recall(Operation& operation) {
  const bool nothing = operation.changes().touched().objects.empty() && !operation.changes().opened_for_reading();
  if (nothing || parts_.leases == nullptr) co_return {};
  operation.begin_changes();
  const rpc::ReleasedPermit released(operation.call());
  auto recalled = co_await parts_.leases->recall(operation);
  co_return recalled;
}

/// Waits for the sessions to which something is delegated that the run has met. They need locks and places to send what
/// they have queued.
job::Task<Result<void>> MetaCore::recall_met(Operation& operation) {
  operation.store_.reset();
  operation.locks_.release();
  operation.end_changes(false);
  const rpc::ReleasedPermit released(operation.call());
  auto recalled = co_await parts_.leases->recall_met(operation);
  co_return recalled;
}

job::Task<Result<Bytes>> MetaCore::read(rpc::Call& call, ByteView request, Body body) {
  SPATE_CO_TRY(std::ignore, parts_.sessions->admit(call));
  Operation operation(*this, operation_parts_, call, Operation::Kind::kRead);
  for (;;) {
    operation.begin();
    auto result = co_await body(operation, request);
    if (operation.met().empty()) co_return result;
    SPATE_CO_TRY(std::ignore, co_await recall_met(operation));
    SPATE_CO_TRY(std::ignore, parts_.sessions->check(call));
  }
}

}  // namespace spate::meta
