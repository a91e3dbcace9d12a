// SPDX-License-Identifier: Apache-2.0
#include "trove/rocksdb/syncer.h"

#include "log/log.h"
#include "trove/rocksdb/status.h"

namespace spate::trove {

void Syncer::add(void* user, Version version) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back({user, version});
  if (std::exchange(serving_, true)) return;
  thread_.run([this] { serve(); });
}

Errc Syncer::sync() {
  if (failed() || !writable_.load(std::memory_order_relaxed)) return Errc::kIoError;
  const rocksdb::Status status = db_.SyncWAL();
  if (status.ok()) return Errc::kOk;
  failed_.store(true, std::memory_order_relaxed);
  SPATE_LOG("trove/rocksdb", error, "the log could not be synced: no commit is taken until a restart status={}",
            status.ToString());
  return errc_of(status);
}

void Syncer::serve() {
  std::vector<Waiter> group;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      group.clear();
      group.swap(waiting_);
      serving_ = !group.empty();
      if (!serving_) return;
    }
    const Errc status = sync();
    reserve_.keep();
    for (const Waiter& waiter : group) {
      Event event;
      event.user = waiter.user;
      event.status = status;
      event.completes = true;
      event.synced = status == Errc::kOk ? waiter.version : 0;
      events_.push(std::move(event));
    }
  }
}

}  // namespace spate::trove
