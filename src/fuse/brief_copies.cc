// SPDX-License-Identifier: Apache-2.0
#include "fuse/brief_copies.h"

#include <fcntl.h>
#include <pthread.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "base/thread.h"
#include "fuse/kernel_notices.h"

namespace spate::fuse {
namespace {

/// A copy has ended at most this long after its answer was made, even on a busy machine. Guess.
constexpr Duration kLongest = std::chrono::seconds(1);
/// If the kernel does not know the object, an answer on its way may make it known. It has arrived by then, and the
/// copy's time is over.
constexpr Duration kArrival = std::chrono::milliseconds(50);
/// The kernel had no memory for a message.
constexpr Duration kRetryPause = std::chrono::milliseconds(10);
/// More objects are not copied, so that the sets have a bound.
constexpr std::size_t kMost = 1U << 17U;

}  // namespace

BriefCopies::BriefCopies(const Clock& clock, bool inherited, bool names) : clock_(clock), names_(names) {
  if (inherited) uncertain_until_ = clock_.now() + kArrival;
}

BriefCopies::~BriefCopies() { end(); }

Result<void> BriefCopies::begin(int device) {
  device_.reset(::fcntl(device, F_DUPFD_CLOEXEC, 3));
  if (!device_) return errno_error(errno, "another descriptor of /dev/fuse");
  const std::lock_guard lock(mutex_);
  if (names_) names_ = tell_new_epoch(device_.get()) == 0;  // an earlier process may have given some
  begun_ = true;
  if (start_thread(thread_, [this] { work(); })) return {};
  return Error::told(Errc::kNoMemory, "the system gives no thread for copies of attributes in the kernel");
}

void BriefCopies::end() {
  std::vector<UniqueFunction<void()>> waiting;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(ended_, true)) return;
    waiting.swap(waiting_);
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (device_ && names_) std::ignore = tell_new_epoch(device_.get());
  if (device_) std::this_thread::sleep_for(kArrival);
  for (UniqueFunction<void()>& then : waiting) then();
}

void BriefCopies::forget_old(MonoTime now) {
  if (now - recent_since_ < kLongest) return;
  earlier_ = std::exchange(recent_, {});
  if (now - recent_since_ >= 2 * kLongest) earlier_.clear();
  recent_since_ = now;
}

bool BriefCopies::begin_attributes(Handle object, MonoTime /*until*/) {
  const std::lock_guard lock(mutex_);
  if (!begun_ || ended_) return false;
  forget_old(clock_.now());
  if (recent_.size() >= kMost) return false;
  recent_.insert(object);
  return true;
}

void BriefCopies::drop_attributes(Handle object) {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  const MonoTime now = clock_.now();
  forget_old(now);
  if (!may_have_copy(object)) return;
  recent_.erase(object);
  earlier_.erase(object);
  if (tell_drop_attributes(device_.get(), object) == 0) return;
  uncertain_until_ = now + kArrival;
}

/// Names that an answer on its way brings count for the epoch before.
void BriefCopies::begin_epoch() {
  const int error = tell_new_epoch(device_.get());
  old_names_ = error == ENOMEM || error == EAGAIN;  // otherwise the mount is gone
}

void BriefCopies::drop_names() {
  const std::lock_guard lock(mutex_);
  if (ended_ || !names_) return;
  begin_epoch();
  if (old_names_) wake_.notify_all();
}

bool BriefCopies::when_dropped(UniqueFunction<void()> then) {
  const std::lock_guard lock(mutex_);
  if (ended_ || !any_to_drop(clock_.now())) return false;
  waiting_.push_back(std::move(then));
  wake_.notify_all();
  return true;
}

/// Tells those who wait when it is certain that the kernel has no copies.
void BriefCopies::work() {
  pthread_setname_np(pthread_self(), "spate-copies");
  std::unique_lock lock(mutex_);
  while (!ended_) {
    if (old_names_) {
      wake_.wait_for(lock, kRetryPause);
      begin_epoch();
      continue;
    }
    if (waiting_.empty()) {
      wake_.wait(lock);
      continue;
    }
    const Duration left = uncertain_until_ - clock_.now();
    if (left > Duration(0)) {
      wake_.wait_for(lock, left);
      continue;
    }
    std::vector<UniqueFunction<void()>> done = std::exchange(waiting_, {});
    lock.unlock();
    for (UniqueFunction<void()>& then : done) then();
    lock.lock();
  }
}

}  // namespace spate::fuse
