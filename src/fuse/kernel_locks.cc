// SPDX-License-Identifier: Apache-2.0
#include "fuse/kernel_locks.h"

#include <cerrno>

#include "base/thread.h"
#include "log/log.h"
#include "posix/errno.h"

namespace spate::fuse {
namespace {

constexpr Duration kMoment = std::chrono::milliseconds(1);
/// How long the end of a mount waits for a server that does not answer.
constexpr Duration kStopTimeout = std::chrono::seconds(4);

}  // namespace

/// A request of the kernel that waits for its lock. Only the executor uses it, unless a comment says otherwise.
struct KernelLocks::Wait : std::enable_shared_from_this<KernelLocks::Wait> {
  Wait(KernelLocks& its_owner, fuse_req_t its_request, const wire::LockSpec& its_lock)
      : owner(its_owner), request(its_request), lock(its_lock) {}
  KernelLocks& owner;
  const fuse_req_t request;
  const wire::LockSpec lock;
  job::StopSource stop;
};

KernelLocks::KernelLocks(assembly::ClientProcess& process, client::HandoverState& handover)
    : process_(process), handover_(handover), gate_(process.executor()), one_ended_(process.executor()) {
  handover_.lock_uses().for_each([this](client::HandoverState::LockUse& use) {
    const client::LockHolder holder{use.kind, use.owner};
    holders_.emplace(use.handle, holder);
    of_opens_.emplace(std::pair(use.open, holder), &use);
  });
}

bool KernelLocks::hand_over() {
  silent_ = true;
  return stop();
}

bool KernelLocks::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(stopping_, true)) return outstanding_ == 0;
    more_.notify_all();
  }
  // Waits that were posted but have not begun are found a little later.
  const auto stop_all = [this](client::Client&) -> job::Task<void> { return stop_waits(); };
  process_.run(stop_all);
  if (outstanding_ > 0) return false;
  if (driver_.joinable()) driver_.join();
  return true;
}

job::Task<void> KernelLocks::stop_waits() {
  const MonoTime limit = process_.executor().now() + kStopTimeout;
  while (outstanding_ > 0 && process_.executor().now() < limit) {
    const std::set<std::shared_ptr<Wait>> all = waits_;
    for (const auto& wait : all) wait->stop.request_stop();
    std::ignore = co_await process_.executor().sleep(kMoment);
  }
}

void KernelLocks::note(std::uint64_t open, Handle handle, client::LockHolder holder) {
  const std::lock_guard lock(mutex_);
  holders_.emplace(handle, holder);
  const auto [entry, added] = of_opens_.try_emplace({open, holder}, nullptr);
  client::HandoverState::LockUse* const use = added ? handover_.lock_uses().take() : nullptr;
  if (use == nullptr) return;
  use->open = open;
  use->handle = handle;
  use->kind = holder.kind;
  use->owner = holder.number;
  handover_.lock_uses().publish(*use);
  entry->second = use;
}

bool KernelLocks::take(Handle handle, client::LockHolder holder) {
  const std::lock_guard lock(mutex_);
  return holders_.erase({handle, holder}) > 0;
}

std::vector<client::LockHolder> KernelLocks::take_all(std::uint64_t open, Handle handle) {
  const std::lock_guard lock(mutex_);
  std::vector<client::LockHolder> all;
  auto entry = of_opens_.lower_bound({open, client::LockHolder{LockKind{}, 0}});
  while (entry != of_opens_.end() && entry->first.first == open) {
    if (holders_.erase({handle, entry->first.second}) > 0) all.push_back(entry->first.second);
    if (entry->second != nullptr) handover_.lock_uses().remove(*entry->second);
    entry = of_opens_.erase(entry);
  }
  return all;
}

void KernelLocks::wait(fuse_req_t request, const wire::LockSpec& lock) {
  const std::lock_guard guard(mutex_);
  if (stopping_) {
    if (!silent_) fuse_reply_err(request, EINTR);
    return;
  }
  if (!driver_.joinable() && !start_thread(driver_, [this] { drive(); })) {
    fuse_reply_err(request, ENOLCK);
    return;
  }
  ++outstanding_;
  auto wait = std::make_shared<Wait>(*this, request, lock);
  process_.executor().post([this, wait = std::move(wait)] { job::spawn(gate_, run(wait)); });
  more_.notify_all();
}

/// Called on a worker thread. The request cannot be answered meanwhile.
void KernelLocks::on_interrupt(fuse_req_t, void* argument) {
  const std::shared_ptr<Wait> wait = static_cast<Wait*>(argument)->shared_from_this();
  wait->owner.process_.executor().post([wait] { wait->stop.request_stop(); });
}

job::Task<void> KernelLocks::run(std::shared_ptr<Wait> wait) {
  waits_.insert(wait);
  fuse_req_interrupt_func(wait->request, on_interrupt, wait.get());
  auto done = co_await process_.client().cluster().locks().set(wait->lock, true, wait->stop);
  fuse_req_interrupt_func(wait->request, nullptr, nullptr);  // waits for the handler of an interrupt
  waits_.erase(wait);
  {
    const std::lock_guard lock(mutex_);
    answers_.push_back({wait->request, wait->lock.handle, done ? 0 : posix::to_errno(done.code())});
  }
  one_ended_.set();
  one_ended_.reset();
}

job::Task<void> KernelLocks::until_answers() {
  while (outstanding_ > 0 && !has_answers()) std::ignore = co_await one_ended_.wait();
}

bool KernelLocks::has_answers() {
  const std::lock_guard lock(mutex_);
  return !answers_.empty();
}

/// Must not run on the executor: when the kernel learns of a grant it drops pages, and these may wait for reads of this
/// mount.
void KernelLocks::give_answers() {
  std::vector<Answer> answers;
  {
    const std::lock_guard lock(mutex_);
    answers.swap(answers_);
  }
  for (const Answer& answer : answers) {
    if (!silent_) {
      if (answer.error == 0 && on_grant_) on_grant_(answer.handle);
      fuse_reply_err(answer.request, answer.error);
    }
    --outstanding_;
  }
}

void KernelLocks::drive() {
  std::unique_lock lock(mutex_);
  while (!stopping_ || outstanding_ > 0) {
    while (outstanding_ == 0 && !stopping_) more_.wait(lock);
    lock.unlock();
    process_.run([this](client::Client&) { return until_answers(); });
    give_answers();
    lock.lock();
  }
}

}  // namespace spate::fuse
