// SPDX-License-Identifier: Apache-2.0
// FaultKeyval: wraps a keyval store and fails or delays operations as planned.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "trove/keyval.h"

namespace spate::trove {

enum class FaultPoint : std::uint8_t { kGet, kGetMany, kRange, kCommit, kSync };
inline constexpr std::size_t kFaultPoints = 5;

/// The fault of one operation.
struct KeyvalFault {
  FaultPoint point = FaultPoint::kCommit;
  std::uint64_t nth = 1;      // counted from order() on, >= 1
  Errc status = Errc::kOk;    // what the operation reports instead of its own outcome; kOk: it is only late
  bool takes_effect = false;  // a failing operation still runs, like a commit that is found after a restart
  Duration delay{0};          // how much later the operation completes
};

/// Not thread-safe. The store and the clock outlive it. With a manual clock, a delay ends at the first test() after its
/// time; with the system's clock, the wait descriptor also becomes readable then.
class FaultKeyval final : public Keyval {
 public:
  FaultKeyval(Keyval& inner, Clock& clock);
  ~FaultKeyval() override;

  void order(KeyvalFault fault);
  /// How many orders have not struck yet.
  std::size_t pending_orders() const { return orders_.size(); }
  /// How many operations of the kind have been posted.
  std::uint64_t count(FaultPoint point) const { return counts_[static_cast<std::size_t>(point)]; }
  /// When the next delay ends; never() without one.
  MonoTime next_event_time() const;

  std::unique_ptr<Transaction> begin() override;
  bool post_sync(void* user, KeyvalCompletion& done) override;
  std::size_t test(std::span<KeyvalCompletion> out) override;
  int wait_descriptor() const override { return wait_fd_.get(); }
  bool prepare_to_wait() override;
  std::string describe() const override { return "kvfault(" + inner_.describe() + ")"; }
  void observe_commits(CommitObserver* observer) override { inner_.observe_commits(observer); }

 private:
  class FaultTransaction;
  /// An operation that is to fail or to be late. The inner store gets its address as the user pointer.
  struct DueFault {
    KeyvalFault fault;
    void* user = nullptr;
  };
  struct Late {
    MonoTime due;
    KeyvalCompletion done;
  };

  const KeyvalFault* strike(FaultPoint point);
  template <typename Post>
  bool run(FaultPoint point, void* user, KeyvalCompletion& done, Post post);
  bool finish(const KeyvalFault& fault, KeyvalCompletion& done);
  void hold(Duration delay, KeyvalCompletion done);
  bool translate(KeyvalCompletion& done);
  void arm_timer();

  Keyval& inner_;
  Clock& clock_;
  std::array<std::uint64_t, kFaultPoints> counts_{};
  std::vector<KeyvalFault> orders_;  // nth counts from the beginning here
  KeyvalFault struck_;
  std::map<void*, std::unique_ptr<DueFault>> in_flight_;
  std::deque<Late> late_;  // by due time
  UniqueFd wait_fd_;       // epoll over the inner store's descriptor and the timer; none in virtual time
  UniqueFd timer_fd_;
};

}  // namespace spate::trove
