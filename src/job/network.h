// SPDX-License-Identifier: Apache-2.0
// NetworkContext: one bmi context as a source of the executor. NetworkOp: a posted send or receive that a coroutine can
// await.
#pragma once

#include <coroutine>

#include "bmi/network.h"
#include "job/executor.h"

namespace spate::job {

class NetworkContext;

/// One posted message. Post it now, and await it once, later. Pinned, since it is the operation's user pointer. It must
/// have completed before it is destroyed, cancelled or not: until then the network may touch the memory.
class NetworkOp {
 public:
  explicit NetworkOp(NetworkContext& context) : context_(context) {}
  NetworkOp(const NetworkOp&) = delete;
  NetworkOp& operator=(const NetworkOp&) = delete;
  ~NetworkOp() { SPATE_CHECK(!in_flight_); }

  /// If the post fails, wait() yields the failure.
  void post_send(const bmi::Message& message);
  void post_recv(const bmi::Message& message);
  void post_send_unexpected(const bmi::Message& message);

  bool done() const { return !in_flight_; }
  /// Asks the network to end the operation early. The caller still awaits wait(), or sees done(), before it destroys
  /// the operation.
  void cancel();

  /// Yields the actual size in bytes, or the failure. If `stop` fires first, the operation is cancelled. The await
  /// still ends only when the network no longer uses the memory. It then yields the stop's reason, unless the operation
  /// has succeeded anyway.
  auto wait(StopToken stop = {}) { return Awaiter{*this, stop, {}}; }
  /// Valid once done().
  Result<std::uint64_t> result() const;

 private:
  friend class NetworkContext;
  struct Awaiter {
    NetworkOp& op;
    StopToken stop;
    StopCallback on_stop;
    bool await_ready();
    void await_suspend(std::coroutine_handle<> handle);
    Result<std::uint64_t> await_resume();
  };
  void posted(Result<bmi::Posted> posted);
  void complete(const bmi::Completion& completion);

  NetworkContext& context_;
  std::coroutine_handle<> waiter_;
  bmi::OpId op_;
  Error failure_{Errc::kOk};  // of the post
  Errc status_ = Errc::kOk;
  std::uint64_t actual_size_ = 0;
  bool in_flight_ = false;
};

/// The constructor opens the context, the destructor closes it; every operation must have completed by then. Not
/// thread-safe: one executor. Messages that coroutines send in one turn leave at its end, in as few system calls as
/// possible.
class NetworkContext final : public Source {
 public:
  NetworkContext(bmi::Network& network, Executor& executor);
  ~NetworkContext() override;
  NetworkContext(const NetworkContext&) = delete;
  NetworkContext& operator=(const NetworkContext&) = delete;

  bmi::Network& network() { return network_; }
  bmi::ContextId id() const { return context_; }
  Executor& executor() { return executor_; }

  /// The executor calls the handler for each unexpected message, within its turn. Without a handler the messages wait
  /// in the network's bounded queues.
  using UnexpectedHandler = UniqueFunction<void(bmi::UnexpectedMessage)>;
  void on_unexpected(UnexpectedHandler handler) { handler_ = std::move(handler); }

  std::size_t poll() override;
  int wait_descriptor() const override { return network_.wait_descriptor(context_); }
  bool prepare_to_wait() override;
  bool wake_by(int fd) override { return network_.wake_by(context_, fd); }
  void stop_wake_by(int fd) override { network_.stop_wake_by(context_, fd); }
  void wait(Duration timeout) override;
  void flush() override { network_.flush_sends(); }

 private:
  bmi::Network& network_;
  Executor& executor_;
  bmi::ContextId context_;
  UnexpectedHandler handler_;
};

}  // namespace spate::job
