// SPDX-License-Identifier: Apache-2.0
// DatafileLock: allows several writes of a datafile at once, but none during its truncate or removal, and none through
// the page cache during a direct one.
#pragma once

#include <coroutine>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/result.h"
#include "job/executor.h"
#include "job/stop.h"

namespace spate::io {

/// Orders the writes of one datafile. Cached writes may run together, and so may direct writes, but the two kinds
/// exclude each other: the page cache consists of folios of many pages, and the kernel cannot drop a folio that is
/// being changed when a direct write changes the disk below it; the old folio would later hide that write.
///
/// Life cycle of a hold: `co_await lock.shared(stop)` or another mode -> Hold -> destroyed, or turned into another mode
/// by to_shared(). First come, first served: a request waits behind earlier ones that wait. A request that is stopped
/// leaves the queue without an effect. No request may wait for a hold that the same coroutine has.
///
/// Not thread-safe: one executor. Pinned. It outlives its holds and its waiting requests (checked by the destructor).
class DatafileLock {
 public:
  explicit DatafileLock(job::Executor& executor) : executor_(executor) {}
  DatafileLock(const DatafileLock&) = delete;
  DatafileLock& operator=(const DatafileLock&) = delete;
  ~DatafileLock() { SPATE_CHECK(idle()); }

  /// kShared: writes and punches through the page cache; kDirect: writes past it; kExclusive: alone.
  enum class Mode : std::uint8_t { kShared, kDirect, kExclusive };

  /// Move-only; the destructor releases the lock.
  class Hold {
   public:
    Hold() = default;
    explicit Hold(DatafileLock& lock) : lock_(&lock) {}
    Hold(Hold&& other) noexcept : lock_(std::exchange(other.lock_, nullptr)) {}
    Hold& operator=(Hold&& other) noexcept {
      std::swap(lock_, other.lock_);
      return *this;
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() {
      if (lock_ != nullptr) lock_->let_go();
    }

   private:
    friend class DatafileLock;
    DatafileLock* lock_ = nullptr;
  };

  /// Yields a Result<Hold>; if stopped first, the token's reason.
  auto shared(job::StopToken stop) { return Awaiter(*this, Mode::kShared, stop); }
  auto direct(job::StopToken stop) { return Awaiter(*this, Mode::kDirect, stop); }
  auto exclusive(job::StopToken stop) { return Awaiter(*this, Mode::kExclusive, stop); }
  auto take(Mode mode, job::StopToken stop) { return Awaiter(*this, mode, stop); }
  /// Turns a kDirect hold into a kShared one, when every other direct holder has ended or waits for the same. Nobody
  /// else gets the lock in between. Yields a Result<void>. If stopped first, it yields the token's reason and the hold
  /// is released.
  auto to_shared(Hold& hold, job::StopToken stop) { return Conversion(*this, hold, stop); }
  bool idle() const { return holders_ == 0 && first_ == nullptr; }

 private:
  class Awaiter {
   public:
    Awaiter(DatafileLock& lock, Mode mode, job::StopToken stop) : lock_(lock), mode_(mode), stop_(stop) {}
    bool await_ready() {
      if (stop_.stopped()) return true;
      granted_ = lock_.first_ == nullptr && lock_.try_take(mode_);
      return granted_;
    }
    void await_suspend(std::coroutine_handle<> handle);
    Result<Hold> await_resume() {
      if (!granted_) return stop_.reason();
      return Hold(lock_);
    }

   private:
    friend class DatafileLock;
    void unlink();
    void give_up();
    DatafileLock& lock_;
    const Mode mode_;
    job::StopToken stop_;
    job::StopCallback on_stop_;
    std::coroutine_handle<> handle_;
    Awaiter* next_ = nullptr;
    Awaiter* previous_ = nullptr;
    bool granted_ = false;
  };

  class Conversion {
   public:
    Conversion(DatafileLock& lock, Hold& hold, job::StopToken stop) : lock_(lock), hold_(hold), stop_(stop) {}
    bool await_ready() {
      if (stop_.stopped()) return true;
      done_ = lock_.convert_all(1);
      return done_;
    }
    void await_suspend(std::coroutine_handle<> handle);
    Result<void> await_resume() {
      if (done_) return {};
      hold_ = Hold();
      return stop_.reason();
    }

   private:
    friend class DatafileLock;
    void give_up();
    DatafileLock& lock_;
    Hold& hold_;
    job::StopToken stop_;
    job::StopCallback on_stop_;
    std::coroutine_handle<> handle_;
    bool done_ = false;
  };

  bool try_take(Mode mode);
  bool convert_all(std::size_t more);
  void let_go();
  void serve();

  job::Executor& executor_;
  std::size_t holders_ = 0;
  Mode held_ = Mode::kShared;  // while there are holders
  Awaiter* first_ = nullptr;
  Awaiter* last_ = nullptr;
  std::vector<Conversion*> converting_;
};

}  // namespace spate::io
