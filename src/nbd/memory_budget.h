// SPDX-License-Identifier: Apache-2.0
// MemoryBudget: limits the memory of large payloads and replies of all connections together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "job/executor.h"
#include "job/task.h"

namespace spate::nbd {

/// Lends shares of a number of bytes, first come, first served. While a claim waits, the budget calls the owner once a
/// second; the owner drops connections that hold shares without progress. A share larger than the whole budget is
/// granted when no other share exists. Not thread-safe: one executor. It outlives shares and claims.
class MemoryBudget {
 public:
  /// Several of the largest requests (kMaxPayload).
  static constexpr std::size_t kBytes = 128UL << 20U;
  /// The longest time to hold a share without progress while others wait, in seconds of waited().
  static constexpr std::uint64_t kStallTimeout = 10;

  /// A share; the destructor returns it. Move-only.
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Hold& operator=(Hold&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      other.release();
      return *this;
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() { release(); }

    void release();
    std::size_t bytes() const { return bytes_; }

   private:
    friend class MemoryBudget;
    Hold(MemoryBudget& budget, std::size_t bytes) : budget_(&budget), bytes_(bytes) {}
    MemoryBudget* budget_ = nullptr;
    std::size_t bytes_ = 0;
  };

  /// Asks for one share at a time. Pinned.
  class Claim {
   public:
    /// Calls `granted` when a waiting claim gets its share. The callback may not ask for or return shares.
    Claim(MemoryBudget& budget, void (*granted)(void*), void* argument)
        : budget_(budget), granted_(granted), argument_(argument) {}
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    ~Claim() { cancel(); }

    /// True: take() yields the share now. False: the claim waits until `granted` is called.
    bool ask(std::size_t bytes);
    Hold take() { return std::exchange(hold_, Hold()); }
    bool waits() const { return waits_; }
    /// Stops waiting, and returns a share that was not taken.
    void cancel();

   private:
    friend class MemoryBudget;
    MemoryBudget& budget_;
    void (*const granted_)(void*);
    void* const argument_;
    Hold hold_;
    std::size_t wanted_ = 0;
    bool waits_ = false;
    Claim* next_ = nullptr;
  };

  /// Calls `each_second` while a claim waits. The callback may not destroy claims.
  MemoryBudget(job::Executor& executor, std::size_t limit, void (*each_second)(void*), void* argument);
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;
  ~MemoryBudget();

  /// Waits for a share.
  job::Task<Hold> acquire(std::size_t bytes);
  std::size_t used() const { return used_; }
  /// How long some claim has waited, in seconds since the start. It stands still while nobody waits, and advances by
  /// one at a time even if the process was stopped for longer.
  std::uint64_t waited() const { return waited_; }
  /// Connections that the owner has dropped because they made no progress; the owner counts them.
  std::uint64_t dropped = 0;

 private:
  bool fits(std::size_t bytes) const { return used_ == 0 || (bytes <= limit_ && used_ <= limit_ - bytes); }
  Hold give(std::size_t bytes);
  void grant();
  void second_over();

  job::Executor& executor_;
  const std::size_t limit_;
  void (*const each_second_)(void*);
  void* const argument_;
  job::Executor::Timer timer_;
  std::size_t used_ = 0;
  std::uint64_t waited_ = 0;
  Claim* first_ = nullptr;  // the oldest waiting claim
  Claim* last_ = nullptr;
};

}  // namespace spate::nbd
