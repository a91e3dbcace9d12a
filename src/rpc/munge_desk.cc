// SPDX-License-Identifier: Apache-2.0
#include "rpc/munge_desk.h"

namespace spate::rpc {

struct MungeDesk::Case {
  Case(Bytes bytes, job::Executor& executor) : credential(std::move(bytes)), done(executor) {}
  const Bytes credential;
  Result<Vouched> result = Errc::kCancelled;  // the thread's until `done` is set
  job::Event done;
};

MungeDesk::MungeDesk(std::shared_ptr<const Munge> munge, FsId fs, ServerId self, job::Executor& executor)
    : munge_(std::move(munge)), fs_(fs), self_(self), executor_(executor), thread_([this] { run(); }) {}

MungeDesk::~MungeDesk() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    waiting_.clear();
  }
  more_.notify_one();
  thread_.join();
}

job::Task<Result<Vouched>> MungeDesk::read(Bytes credential, job::StopToken stop) {
  const auto mine = std::make_shared<Case>(std::move(credential), executor_);
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= kMostWaiting) co_return Error::told(Errc::kBusy, "too many credentials of munge at once");
    waiting_.push_back(mine);
  }
  more_.notify_one();
  SPATE_CO_TRY(std::ignore, co_await mine->done.wait(stop));
  co_return std::move(mine->result);
}

void MungeDesk::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    more_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    std::shared_ptr<Case> next = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    next->result = munge_->read(fs_, self_, next->credential);
    executor_.post([next = std::move(next)] { next->done.set(); });
    lock.lock();
  }
}

}  // namespace spate::rpc
