// SPDX-License-Identifier: Apache-2.0
#include "trove/kvfault/fault_keyval.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>

#include "base/check.h"

namespace spate::trove {

class FaultKeyval::FaultTransaction final : public Transaction {
 public:
  FaultTransaction(FaultKeyval& store, std::unique_ptr<Transaction> inner) : store_(store), inner_(std::move(inner)) {}

  bool post_get(ByteView key, ReadMode mode, void* user, KeyvalCompletion& done) override {
    return store_.run(FaultPoint::kGet, user, done, [&](void* who) { return inner_->post_get(key, mode, who, done); });
  }
  bool post_get_many(std::span<const Bytes> keys, ReadMode mode, void* user, KeyvalCompletion& done) override {
    return store_.run(FaultPoint::kGetMany, user, done,
                      [&](void* who) { return inner_->post_get_many(keys, mode, who, done); });
  }
  bool post_range(const KeyRange& range, void* user, KeyvalCompletion& done) override {
    return store_.run(FaultPoint::kRange, user, done, [&](void* who) { return inner_->post_range(range, who, done); });
  }
  void note_read(ByteView key) override { inner_->note_read(key); }
  void note_range_read(ByteView begin, ByteView end) override { inner_->note_range_read(begin, end); }
  void put(ByteView key, ByteView value) override { inner_->put(key, value); }
  void erase(ByteView key) override { inner_->erase(key); }
  bool post_commit(Durability durability, void* user, KeyvalCompletion& done) override {
    return store_.run(FaultPoint::kCommit, user, done,
                      [&](void* who) { return inner_->post_commit(durability, who, done); });
  }

 private:
  FaultKeyval& store_;
  std::unique_ptr<Transaction> inner_;
};

FaultKeyval::FaultKeyval(Keyval& inner, Clock& clock) : inner_(inner), clock_(clock) {
  if (inner_.wait_descriptor() < 0) return;
  wait_fd_.reset(::epoll_create1(EPOLL_CLOEXEC));
  timer_fd_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  SPATE_CHECK(wait_fd_ && timer_fd_);
  for (const int fd : {inner_.wait_descriptor(), timer_fd_.get()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    SPATE_CHECK(::epoll_ctl(wait_fd_.get(), EPOLL_CTL_ADD, fd, &event) == 0);
  }
}

FaultKeyval::~FaultKeyval() = default;

void FaultKeyval::order(KeyvalFault fault) {
  SPATE_CHECK(fault.nth >= 1);
  fault.nth += count(fault.point);
  orders_.push_back(fault);
}

const KeyvalFault* FaultKeyval::strike(FaultPoint point) {
  const std::uint64_t now = ++counts_[static_cast<std::size_t>(point)];
  const auto hit = std::find_if(orders_.begin(), orders_.end(), [point, now](const KeyvalFault& fault) {
    return fault.point == point && fault.nth == now;
  });
  if (hit == orders_.end()) return nullptr;
  struck_ = *hit;
  orders_.erase(hit);
  return &struck_;
}

/// `post` posts to the inner store under the user pointer that it is given.
template <typename Post>
bool FaultKeyval::run(FaultPoint point, void* user, KeyvalCompletion& done, Post post) {
  const KeyvalFault* fault = strike(point);
  if (fault == nullptr) return post(user);
  if (fault->status != Errc::kOk && !fault->takes_effect) {
    done = KeyvalCompletion{};
    done.user = user;
    return finish(*fault, done);
  }
  auto struck = std::make_unique<DueFault>(DueFault{*fault, user});
  if (post(struck.get())) {
    done.user = user;
    return finish(struck->fault, done);
  }
  in_flight_.emplace(struck.get(), std::move(struck));
  return false;
}

/// Gives `done` the fault's outcome. False: it is held back.
bool FaultKeyval::finish(const KeyvalFault& fault, KeyvalCompletion& done) {
  if (fault.status != Errc::kOk) {
    void* user = done.user;
    done = KeyvalCompletion{};
    done.user = user;
    done.status = fault.status;
  }
  if (fault.delay <= Duration(0)) return true;
  hold(fault.delay, std::exchange(done, {}));
  return false;
}

void FaultKeyval::hold(Duration delay, KeyvalCompletion done) {
  const MonoTime due = clock_.now() + delay;
  const auto at = std::upper_bound(late_.begin(), late_.end(), due,
                                   [](MonoTime time, const Late& late) { return time < late.due; });
  late_.insert(at, Late{due, std::move(done)});
  arm_timer();
}

void FaultKeyval::arm_timer() {
  if (!timer_fd_ || late_.empty()) return;
  const Duration left = std::max(late_.front().due - clock_.now(), Duration(1));
  itimerspec spec{};
  spec.it_value.tv_sec = left.count() / 1'000'000'000;
  spec.it_value.tv_nsec = left.count() % 1'000'000'000;
  SPATE_CHECK(::timerfd_settime(timer_fd_.get(), 0, &spec, nullptr) == 0);
}

MonoTime FaultKeyval::next_event_time() const { return late_.empty() ? MonoTime::never() : late_.front().due; }

std::unique_ptr<Transaction> FaultKeyval::begin() { return std::make_unique<FaultTransaction>(*this, inner_.begin()); }

bool FaultKeyval::post_sync(void* user, KeyvalCompletion& done) {
  return run(FaultPoint::kSync, user, done, [&](void* who) { return inner_.post_sync(who, done); });
}

/// Changes the inner store's completion into what the poster of the operation gets. False: it is held back.
bool FaultKeyval::translate(KeyvalCompletion& done) {
  const auto at = in_flight_.find(done.user);
  if (at == in_flight_.end()) return true;
  const std::unique_ptr<DueFault> struck = std::move(at->second);
  in_flight_.erase(at);
  done.user = struck->user;
  return finish(struck->fault, done);
}

std::size_t FaultKeyval::test(std::span<KeyvalCompletion> out) {
  std::size_t n = 0;
  for (; n < out.size() && !late_.empty() && late_.front().due <= clock_.now(); ++n) {
    out[n] = std::move(late_.front().done);
    late_.pop_front();
  }
  while (n < out.size() && inner_.test(out.subspan(n, 1)) == 1) n += translate(out[n]) ? 1 : 0;
  return n;
}

bool FaultKeyval::prepare_to_wait() {
  if (!late_.empty() && late_.front().due <= clock_.now()) return false;
  if (timer_fd_) {
    std::uint64_t fired = 0;
    [[maybe_unused]] const auto drained = ::read(timer_fd_.get(), &fired, sizeof fired);
    arm_timer();
  }
  return inner_.prepare_to_wait();
}

}  // namespace spate::trove
