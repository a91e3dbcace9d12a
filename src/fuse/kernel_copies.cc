// SPDX-License-Identifier: Apache-2.0
#include "fuse/kernel_copies.h"

#include <fcntl.h>
#include <pthread.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/thread.h"
#include "fuse/kernel_notices.h"
#include "log/log.h"

namespace spate::fuse {
namespace {

constexpr auto kBusyPause = std::chrono::milliseconds(10);

}  // namespace

KernelCopies::KernelCopies(client::HandoverState& handover) : handover_(handover), busy_(handover.inherited()) {}

KernelCopies::~KernelCopies() { end(); }

/// Calls `tell`, which returns an errno, until the kernel takes the message. False: the kernel does not know such
/// messages, or the mount is gone.
template <typename Tell>
bool KernelCopies::tell_kernel(Tell tell) {
  for (bool said = false;;) {
    const int error = tell();
    // The kernel has no copy of an object that it does not know.
    if (error == 0 || error == ENOENT) return true;
    if (error == EINVAL || error == ENODEV || error == ENOTCONN || error == EBADF || error == EPERM) return false;
    if (!std::exchange(said, true))
      SPATE_LOG("fuse", error, "the kernel cannot be told what to drop error={}", std::strerror(error));
    {
      const std::lock_guard lock(mutex_);
      if (ended_) return false;
    }
    std::this_thread::sleep_for(kBusyPause);
  }
}

bool KernelCopies::new_epoch() {
  return tell_kernel([this] { return tell_new_epoch(device_.get()); });
}

void KernelCopies::drop_in_kernel(Handle object) {
  std::ignore = tell_kernel([this, object] { return tell_drop_attributes(device_.get(), object); });
}

Result<void> KernelCopies::begin(int device) {
  device_.reset(::fcntl(device, F_DUPFD_CLOEXEC, 3));
  if (!device_) return errno_error(errno, "another descriptor of /dev/fuse");
  const bool names = new_epoch();
  if (names) {
    SPATE_LOG("fuse", info, "the kernel keeps names and attributes");
  } else {
    SPATE_LOG("fuse", warn, "the kernel keeps attributes, but no names: it cannot be told to drop them (Linux 6.16)");
  }
  const std::lock_guard lock(mutex_);
  for (const Handle object : handover_.copied(clock_.now())) attributes_.insert(object);
  takes_names_ = names;
  begun_ = true;
  if (start_thread(thread_, [this] { work(); })) return {};
  return Error::told(Errc::kNoMemory, "the system gives no thread for copies of attributes in the kernel");
}

/// The mount may still exist for programs that have something open in it. In that case the leases end before the mount.
void KernelCopies::drop_whatever_it_has() {
  for (const Handle object : handover_.copied(clock_.now())) drop_in_kernel(object);
  std::ignore = new_epoch();
  device_.reset();
}

void KernelCopies::end() {
  std::vector<UniqueFunction<void()>> waiting;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    attributes_.clear();
    names_ = false;
    waiting.swap(waiting_);
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (device_) drop_whatever_it_has();
  for (UniqueFunction<void()>& then : waiting) then();
}

/// Call it with the lock held. Requests that come in the meantime are left for the next call, so that earlier callers
/// do not wait for them.
void KernelCopies::drop_all_there_is(std::unique_lock<std::mutex>& lock) {
  const std::unordered_set<Handle> attributes = std::exchange(attributes_, {});
  const bool names = std::exchange(names_, false);
  std::vector<UniqueFunction<void()>> done = std::exchange(waiting_, {});
  busy_ = true;
  lock.unlock();
  for (const Handle object : attributes) drop_in_kernel(object);
  if (names) std::ignore = new_epoch();
  lock.lock();
  busy_ = false;
  if (!anything_to_drop()) {
    for (UniqueFunction<void()>& then : std::exchange(waiting_, {})) done.push_back(std::move(then));
  }
  lock.unlock();
  for (UniqueFunction<void()>& then : done) then();
  lock.lock();
}

void KernelCopies::work() {
  pthread_setname_np(pthread_self(), "spate-copies");
  std::unique_lock lock(mutex_);
  while (!ended_) {
    drop_all_there_is(lock);
    while (!anything_to_drop() && !ended_) wake_.wait(lock);
  }
}

client::Copies::Names KernelCopies::takes_names() const {
  const std::lock_guard lock(mutex_);
  return takes_names_ && !ended_ ? Names::kOfAll : Names::kOfNone;
}

bool KernelCopies::begin_attributes(Handle object, MonoTime until) {
  const std::lock_guard lock(mutex_);
  return begun_ && !ended_ && attributes_.size() < kMostWaiting && handover_.note_copy(object, until, clock_.now());
}

void KernelCopies::drop_attributes(Handle object) {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  attributes_.insert(object);
  wake_.notify_all();
}

void KernelCopies::drop_names() {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  names_ = true;
  wake_.notify_all();
}

bool KernelCopies::when_dropped(UniqueFunction<void()> then) {
  const std::lock_guard lock(mutex_);
  if (ended_ || (!busy_ && !anything_to_drop())) return false;
  waiting_.push_back(std::move(then));
  return true;
}

}  // namespace spate::fuse
