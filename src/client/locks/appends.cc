// SPDX-License-Identifier: Apache-2.0
#include "client/locks/appends.h"

#include "client/session/handover_state.h"

namespace spate::client {
namespace {

constexpr Duration kLookAgain = std::chrono::milliseconds(10);
constexpr LockHolder kRight{LockKind::kAppend, 0};

}  // namespace

Appends::Appends(job::Executor& executor, Locks& locks, HandoverState* handover)
    : executor_(executor), locks_(locks), handover_(handover), gate_(executor) {
  locks_.on_recall([this](Handle handle) { recall(handle); });
}

job::Task<void> Appends::stop() {
  stopping_.request_stop();
  co_await gate_.close();
}

/// Whether the right must be kept because an append of an earlier process of this client must still be finished at its
/// place. Another holder of the right could put other data there.
bool Appends::must_keep(Handle handle) const {
  return handover_ != nullptr && !stopping_.stopped() && handover_->may_append_again(handle);
}

Appends::AppendedPtr Appends::join(Handle handle) {
  AppendedPtr& file = files_[handle];
  if (file == nullptr) file = std::make_shared<Appended>(handle, executor_);
  ++file->users;
  return file;
}

/// The file stays in files_, and this holds the turn, until the server has answered. So an open in the meantime asks
/// for the right after that. Otherwise the server might see that open's request first, and this client would use a
/// right that it has given back.
job::Task<void> Appends::leave(AppendedPtr file) {
  if (file->users == 1) {
    auto turn = co_await file->turn.acquire(1);  // an append whose caller gave up may still be under way
    if (turn && file->users == 1) {              // may have changed
      if (must_keep(file->handle)) {
        job::spawn(gate_, give_up(file->handle));
      } else {
        std::ignore = co_await locks_.release(file->handle, kRight);
      }
    }
  }
  if (--file->users == 0) files_.erase(file->handle);
}

job::Task<Result<void>> Appends::take(AppendedPtr file, job::StopToken stop) {
  wire::LockSpec right;
  right.handle = file->handle;
  right.kind = kRight.kind;
  right.mode = LockMode::kExclusive;
  while (!locks_.holds(file->handle, kRight)) {
    auto taken = co_await locks_.set(right, true, stop);
    if (taken.code() == Errc::kLostLock)
      taken = co_await locks_.release(file->handle, kRight);  // take it again, in this session
    if (!taken) co_return taken;
  }
  co_return Result<void>();
}

job::Task<void> Appends::done(AppendedPtr file) {
  if (!file->recalled || file->unsettled) co_return;
  if (must_keep(file->handle)) {
    job::spawn(gate_, give_up(file->handle));
    co_return;
  }
  file->recalled = false;
  std::ignore = co_await locks_.release(file->handle, kRight);
}

void Appends::recall(Handle handle) {
  const auto found = files_.find(handle);
  if (found != files_.end()) found->second->recalled = true;
  job::spawn(gate_, give_up(handle));
}

/// Waits until a running append has ended.
job::Task<void> Appends::give_up(Handle handle) {
  const AppendedPtr file = join(handle);  // with this entry, nobody asks for the right while it is given back
  while (must_keep(handle)) std::ignore = co_await executor_.sleep(kLookAgain, stopping_);
  {
    auto turn = co_await file->turn.acquire(1);
    file->recalled = true;  // the file may have been opened after the recall
    if (turn) co_await done(file);
  }
  co_await leave(file);
}

}  // namespace spate::client
