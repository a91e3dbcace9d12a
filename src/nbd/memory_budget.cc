// SPDX-License-Identifier: Apache-2.0
#include "nbd/memory_budget.h"

#include <chrono>

#include "base/check.h"
#include "job/event.h"

namespace spate::nbd {
namespace {

constexpr Duration kTick = std::chrono::seconds(1);

}  // namespace

void MemoryBudget::Hold::release() {
  MemoryBudget* const budget = std::exchange(budget_, nullptr);
  const std::size_t bytes = std::exchange(bytes_, 0);
  if (budget == nullptr) return;
  budget->used_ -= bytes;
  budget->grant();
}

bool MemoryBudget::Claim::ask(std::size_t bytes) {
  if (waits_) return false;
  if (hold_.bytes() > 0) return true;  // it has waited for this share
  if (budget_.first_ == nullptr && budget_.fits(bytes)) {
    hold_ = budget_.give(bytes);
    return true;
  }
  waits_ = true;
  wanted_ = bytes;
  next_ = nullptr;
  (budget_.last_ != nullptr ? budget_.last_->next_ : budget_.first_) = this;
  budget_.last_ = this;
  if (!budget_.timer_.armed()) {
    budget_.timer_.arm(
        budget_.executor_.now() + kTick, [](void* self) { static_cast<MemoryBudget*>(self)->second_over(); }, &budget_);
  }
  return false;
}

void MemoryBudget::Claim::cancel() {
  if (std::exchange(waits_, false)) {
    Claim* before = nullptr;
    for (Claim* at = budget_.first_; at != this; at = at->next_) before = at;
    (before != nullptr ? before->next_ : budget_.first_) = next_;
    if (budget_.last_ == this) budget_.last_ = before;
    budget_.grant();  // a later claim may be smaller
  }
  hold_.release();
}

MemoryBudget::MemoryBudget(job::Executor& executor, std::size_t limit, void (*each_second)(void*), void* argument)
    : executor_(executor), limit_(limit), each_second_(each_second), argument_(argument), timer_(executor) {}

MemoryBudget::~MemoryBudget() { SPATE_CHECK(used_ == 0 && first_ == nullptr); }

job::Task<MemoryBudget::Hold> MemoryBudget::acquire(std::size_t bytes) {
  job::Event given(executor_);
  Claim claim(*this, [](void* event) { static_cast<job::Event*>(event)->set(); }, &given);
  if (!claim.ask(bytes)) std::ignore = co_await given.wait();
  co_return claim.take();
}

MemoryBudget::Hold MemoryBudget::give(std::size_t bytes) {
  used_ += bytes;
  return {*this, bytes};
}

void MemoryBudget::grant() {
  while (first_ != nullptr && fits(first_->wanted_)) {
    Claim& claim = *first_;
    first_ = claim.next_;
    if (first_ == nullptr) last_ = nullptr;
    claim.waits_ = false;
    claim.hold_ = give(claim.wanted_);
    claim.granted_(claim.argument_);
  }
  if (first_ == nullptr) timer_.disarm();
}

void MemoryBudget::second_over() {
  ++waited_;
  timer_.arm(executor_.now() + kTick, [](void* self) { static_cast<MemoryBudget*>(self)->second_over(); }, this);
  each_second_(argument_);
}

}  // namespace spate::nbd
