// SPDX-License-Identifier: Apache-2.0
#include "flow/scheduler.h"

#include <algorithm>

namespace spate::flow {

Scheduler::Scheduler(job::Executor& executor, SchedulerOptions options)
    : executor_(executor), options_(options), small_(options.per_round), large_(options.per_round) {}

void Scheduler::Queue::add(Awaiter& waiter) {
  ++size_;
  Client& client = clients_[waiter.place_.client];
  if (client.in_round < per_round_ && client.later.empty()) {
    join_round(waiter, client);  // what comes ahead of the sweep is met by it, what comes behind when it starts over
  } else {
    client.later.push_back(&waiter);
  }
}

void Scheduler::Queue::join_round(Awaiter& waiter, Client& client) {
  waiter.in_round_ = true;
  ++client.in_round;
  round_.emplace(waiter.position(), &waiter);
}

void Scheduler::Queue::remove(Awaiter& waiter) {
  if (waiter.in_round_) {
    round_.erase(waiter.position());
  } else {
    std::erase(clients_[waiter.place_.client].later, &waiter);
  }
  if (--size_ == 0) clients_.clear();
}

Scheduler::Awaiter& Scheduler::Queue::take() {
  if (round_.empty()) next_round();
  auto next = round_.upper_bound(swept_);
  if (next == round_.end()) next = round_.begin();
  Awaiter& taken = *next->second;
  swept_ = next->first;
  round_.erase(next);
  if (--size_ == 0) clients_.clear();
  return taken;
}

void Scheduler::Queue::next_round() {
  for (auto it = clients_.begin(); it != clients_.end();) {
    Client& client = it->second;
    client.in_round = 0;
    while (client.in_round < per_round_ && !client.later.empty()) {
      Awaiter* const waiter = client.later.front();
      client.later.pop_front();
      join_round(*waiter, client);
    }
    it = client.in_round == 0 ? clients_.erase(it) : std::next(it);
  }
}

void Scheduler::finished() {
  --running_;
  if (waiting() == 0) return;
  Awaiter& next = take_next();
  next.on_stop_.disarm();
  next.granted_ = true;
  ++running_;
  executor_.schedule(next.handle_);
}

Scheduler::Awaiter& Scheduler::take_next() {
  const bool small = small_.size() > 0 && (large_.size() == 0 || small_in_a_row_ < options_.small_run);
  small_in_a_row_ = small ? small_in_a_row_ + 1 : 0;
  return small ? small_.take() : large_.take();
}

bool Scheduler::Awaiter::await_ready() {
  if (stop_.stopped()) {
    outcome_ = stop_.reason();
    return true;
  }
  if (owner_.running_ < owner_.options_.running) {
    ++owner_.running_;
    granted_ = true;
    return true;
  }
  if (owner_.waiting() < owner_.options_.waiting) return false;
  outcome_ = Errc::kBusy;
  return true;
}

void Scheduler::Awaiter::await_suspend(std::coroutine_handle<> handle) {
  handle_ = handle;
  order_ = owner_.next_order_++;
  owner_.queue_of(place_).add(*this);
  on_stop_.arm(stop_, [](void* self) { static_cast<Awaiter*>(self)->give_up(); }, this);
}

void Scheduler::Awaiter::give_up() {
  outcome_ = stop_.reason();
  owner_.queue_of(place_).remove(*this);
  owner_.executor_.schedule(handle_);
}

Result<Scheduler::Ticket> Scheduler::Awaiter::await_resume() {
  if (granted_) return Ticket(owner_);
  return outcome_;
}

}  // namespace spate::flow
