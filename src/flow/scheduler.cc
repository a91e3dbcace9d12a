// SPDX-License-Identifier: Apache-2.0
#include "flow/scheduler.h"

#include <algorithm>

namespace spate::flow {

Scheduler::Scheduler(job::Executor& executor, SchedulerOptions options)
    : executor_(executor),
      options_(options),
      control_(options.per_round),
      small_(options.per_round),
      large_(options.per_round),
      background_(options.per_round) {}

Scheduler::Queue& Scheduler::queue_of(const SchedulerRequest& request) {
  if (request.priority == wire::Priority::kControl) return control_;
  if (request.priority == wire::Priority::kBackground) return background_;
  return request.bytes <= options_.small_bytes ? small_ : large_;
}

void Scheduler::Queue::add(Awaiter& waiter) {
  ++size_;
  Client& client = clients_[waiter.request_.client];
  if (client.in_round < per_round_ && client.later.empty()) {
    // Operations ahead of the sweep join this round. Those behind it run when the sweep starts over.
    join_round(waiter, client);
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
    std::erase(clients_[waiter.request_.client].later, &waiter);
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
  const std::size_t normal = small_.size() + large_.size();
  const bool only_control = normal + background_.size() == 0;
  if (control_.size() > 0 && (only_control || control_in_a_row_ < options_.control_run)) {
    ++control_in_a_row_;
    return control_.take();
  }
  control_in_a_row_ = 0;
  if (background_.size() > 0 && (normal == 0 || others_in_a_row_ >= options_.others_run)) {
    others_in_a_row_ = 0;
    return background_.take();
  }
  ++others_in_a_row_;
  return take_normal();
}

Scheduler::Awaiter& Scheduler::take_normal() {
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
  owner_.queue_of(request_).add(*this);
  on_stop_.arm(stop_, [](void* self) { static_cast<Awaiter*>(self)->give_up(); }, this);
}

void Scheduler::Awaiter::give_up() {
  outcome_ = stop_.reason();
  owner_.queue_of(request_).remove(*this);
  owner_.executor_.schedule(handle_);
}

Result<Scheduler::Ticket> Scheduler::Awaiter::await_resume() {
  if (granted_) return Ticket(owner_);
  return outcome_;
}

}  // namespace spate::flow
