// SPDX-License-Identifier: Apache-2.0
#include "job/network.h"

#include <array>

namespace spate::job {

void NetworkOp::post_send(const bmi::Message& message) {
  in_flight_ = true;
  posted(context_.network().post_send(message, context_.id(), this));
}

void NetworkOp::post_recv(const bmi::Message& message) {
  in_flight_ = true;
  posted(context_.network().post_recv(message, context_.id(), this));
}

void NetworkOp::post_send_unexpected(const bmi::Message& message) {
  in_flight_ = true;
  posted(context_.network().post_send_unexpected(message, context_.id(), this));
}

void NetworkOp::posted(Result<bmi::Posted> posted) {
  if (!posted) {
    in_flight_ = false;
    failure_ = std::move(posted).error();
    status_ = failure_.code();
    return;
  }
  op_ = posted->op;
  if (posted->done) complete(posted->completion);
}

void NetworkOp::complete(const bmi::Completion& completion) {
  in_flight_ = false;
  status_ = completion.status;
  actual_size_ = completion.actual_size;
  if (waiter_) context_.executor().schedule(std::exchange(waiter_, {}));
}

void NetworkOp::cancel() {
  if (in_flight_) context_.network().cancel(op_);
}

Result<std::uint64_t> NetworkOp::result() const {
  SPATE_CHECK(done());
  if (failure_.code() != Errc::kOk) return failure_;
  if (status_ != Errc::kOk) return status_;
  return actual_size_;
}

bool NetworkOp::Awaiter::await_ready() {
  if (stop.stopped()) op.cancel();
  return op.done();
}

void NetworkOp::Awaiter::await_suspend(std::coroutine_handle<> handle) {
  op.waiter_ = handle;
  on_stop.arm(stop, [](void* self) { static_cast<Awaiter*>(self)->op.cancel(); }, this);
}

Result<std::uint64_t> NetworkOp::Awaiter::await_resume() {
  on_stop.disarm();
  Result<std::uint64_t> result = op.result();
  if (!result && stop.stopped()) return stop.reason();
  return result;
}

NetworkContext::NetworkContext(bmi::Network& network, Executor& executor)
    : network_(network), executor_(executor), context_(network.open_context()) {
  network_.hold_sends();
  executor_.add_source(*this);
}

NetworkContext::~NetworkContext() {
  executor_.remove_source(*this);
  network_.close_context(context_);
}

bool NetworkContext::prepare_to_wait() {
  network_.flush_sends();
  return network_.prepare_to_wait(context_);
}

void NetworkContext::wait(Duration timeout) {
  const bool slept = network_.wait(context_, timeout);
  SPATE_CHECK(slept);  // wake_by() said so
}

std::size_t NetworkContext::poll() {
  std::array<bmi::Completion, 16> completions;  // few: they are cleared each time
  const std::size_t done = network_.test_context(context_, completions);
  for (std::size_t i = 0; i < done; ++i) static_cast<NetworkOp*>(completions[i].user)->complete(completions[i]);
  std::size_t taken = 0;
  if (handler_) {
    std::array<bmi::UnexpectedMessage, 8> messages;
    taken = network_.test_unexpected(context_, messages);
    for (std::size_t i = 0; i < taken; ++i) handler_(std::move(messages[i]));
  }
  return done + taken;
}

}  // namespace spate::job
