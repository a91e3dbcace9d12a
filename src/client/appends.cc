// SPDX-License-Identifier: Apache-2.0
#include "client/appends.h"

namespace spate::client {
namespace {

constexpr LockHolder kRight{LockKind::kAppend, 0};

}  // namespace

Appends::Appends(job::Executor& executor, Locks& locks) : executor_(executor), locks_(locks), gate_(executor) {
  locks_.on_recall([this](Handle handle) { recall(handle); });
}

job::Task<void> Appends::stop() { co_await gate_.close(); }

Appends::AppendedPtr Appends::join(Handle handle) {
  AppendedPtr& file = files_[handle];
  if (file == nullptr) file = std::make_shared<Appended>(handle, executor_);
  ++file->users;
  return file;
}

job::Task<void> Appends::leave(AppendedPtr file) {
  if (--file->users > 0) co_return;
  auto turn = co_await file->turn.acquire(1);  // one that was given up by its caller may be under way
  if (!turn || file->users > 0) co_return;     // may have changed
  files_.erase(file->handle);
  std::ignore = co_await locks_.release(file->handle, kRight);
}

job::Task<Result<void>> Appends::take(AppendedPtr file, job::StopToken stop) {
  wire::LockSpec right;
  right.handle = file->handle;
  right.kind = kRight.kind;
  right.mode = LockMode::kExclusive;
  while (!locks_.holds(file->handle, kRight)) {
    auto taken = co_await locks_.set(right, true, stop);
    if (taken.code() == Errc::kLostLock) taken = co_await locks_.release(file->handle, kRight);  // and again, in this session
    if (!taken) co_return taken;
  }
  co_return Result<void>();
}

job::Task<void> Appends::done(AppendedPtr file) {
  if (!file->recalled || file->unsettled) co_return;
  file->recalled = false;
  std::ignore = co_await locks_.release(file->handle, kRight);
}

void Appends::recall(Handle handle) {
  const auto found = files_.find(handle);
  if (found != files_.end()) found->second->recalled = true;
  job::spawn(gate_, give_up(handle));
}

/// An append that is under way ends first.
job::Task<void> Appends::give_up(Handle handle) {
  const auto found = files_.find(handle);
  if (found == files_.end()) {
    std::ignore = co_await locks_.release(handle, kRight);
    co_return;
  }
  const AppendedPtr file = found->second;
  auto turn = co_await file->turn.acquire(1);
  if (turn) co_await done(file);
}

}  // namespace spate::client
