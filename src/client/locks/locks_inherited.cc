// SPDX-License-Identifier: Apache-2.0
// The locks of a session whose process has ended and that this process continues (client/session/handover_state.h).
#include "client/locks/locks.h"
#include "client/session/handover_state.h"
#include "client/session/session.h"
#include "log/log.h"

namespace spate::client {
namespace {

wire::LockSpec to_lock(const HandoverState::Held& record) {
  return {record.handle, record.kind, record.owner, record.pid, record.mode, record.first, record.last};
}

}  // namespace

void Locks::inherit() {
  HandoverState* const handover = session_.handover();
  if (handover == nullptr || !handover->inherited()) return;
  last_sequence_ = handover->lock_state().last_sequence;
  has_locked_ = true;
  for (const HandoverState::Held& piece : handover->held()) {
    Held& held = held_[piece.handle][{piece.kind, piece.owner}];
    held.pid = piece.kind == LockKind::kAppend ? UINT32_MAX
                                               : piece.pid;  // a right to append must be requested again, see holds()
    held.ranges.set({piece.first, piece.last}, piece.mode);
  }
  for (const HandoverState::Wait& wait : handover->waits())
    inherited_waits_.emplace_back(wait.sequence, to_lock(wait.lock));
}

job::Task<void> Locks::end_inherited_waits() {
  std::vector<Handle> rights;  // rights to append; the earlier process may have been asked to give them back
  for (const auto& [handle, owners] : held_) {
    if (owners.contains({LockKind::kAppend, 0})) rights.push_back(handle);
  }
  for (const Handle handle : rights) {
    if (on_recall_) on_recall_(handle);
  }
  std::vector<std::pair<std::uint64_t, wire::LockSpec>> all;
  all.swap(inherited_waits_);
  for (const auto& [sequence, lock] : all) {
    wire::LockCancelRequest request;
    request.sequence = sequence;
    auto reply = co_await session_.ask<wire::LockCancelReply>(request, session_.limits(stopping_));
    events_.check_session();
    if (!reply) {
      SPATE_LOG("client", warn, "a wait for a lock is left over handle={} error={}", lock.handle.value,
                reply.error().message());
      continue;
    }
    if (reply->ended || reply->table != events_.table()) {
      session_.handover()->end_wait(sequence);
      continue;
    }
    // The lock was granted, or may have been. It is released when its owner closes the file.
    doubts_.begin(sequence, lock);
    doubts_.leave(sequence, session_.handover());
    if (lock.kind == LockKind::kAppend && on_recall_) on_recall_(lock.handle);
  }
}

}  // namespace spate::client
