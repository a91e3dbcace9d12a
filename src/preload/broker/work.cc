// SPDX-License-Identifier: Apache-2.0
#include "preload/broker/work.h"

#include <array>

namespace spate::preload {
namespace {

job::Task<Result<void>> stop_now(job::StopSource& stop) {
  stop.request_stop();
  co_return Result<void>();
}

}  // namespace

Work::~Work() {
  if (started_ != nullptr) process_.driver().wait(*started_);  // at most its last function still runs
}

void Work::begin(std::function<void()> then) {
  then_ = std::move(then);
  started_ = process_.driver().start([this] { return run(); });
}

void Work::cancel() {
  if (finished()) return;
  std::ignore = process_.driver().run([this] { return stop_now(stop_); });
}

job::Task<Result<void>> Work::run() {
  const auto done = co_await act();
  reply.error = done ? Errc::kOk : done.code();
  const std::function<void()> then = std::move(then_);
  finished_.store(true, std::memory_order_release);
  then();
  co_return Result<void>();
}

job::Task<Result<void>> Work::act() {
  client::Locks& locks = process_.client().cluster().locks();
  switch (request.word) {
    case BrokerOp::kHold: {
      auto held = co_await hold();
      co_return held;
    }
    case BrokerOp::kLock: {
      auto set = co_await locks.set(request.lock, request.wait && request.lock.mode != LockMode::kNone, stop_);
      co_return set;
    }
    case BrokerOp::kTest: {
      SPATE_CO_TRY(auto found, co_await locks.test(request.lock));
      reply.conflict = std::move(found);
      co_return Result<void>();
    }
    case BrokerOp::kDrop: {
      auto dropped = co_await drop();
      co_return dropped;
    }
    default: co_return Errc::kInvalidArgument;
  }
}

/// Opens the file with any right that the user has, because it is neither read nor written here.
job::Task<Result<void>> Work::hold() {
  constexpr std::array<std::uint8_t, 3> kRights{wire::kOpenRead, wire::kOpenWrite,
                                                wire::kOpenRead | wire::kOpenExecute};
  Result<void> refused;
  for (const std::uint8_t rights : kRights) {
    wire::NamePath where;
    where.start = request.lock.handle;
    auto opened = co_await process_.client().open(std::move(where), rights);
    if (opened) {
      file = *std::move(opened);
      file->forget_reads();
      co_return Result<void>();
    }
    refused = std::move(opened).error();
    if (refused.code() != Errc::kPermissionDenied) break;
  }
  co_return refused;
}

job::Task<Result<void>> Work::drop() {
  Result<void> all;
  for (const Owner& owner : owners) {
    auto released = co_await process_.client().cluster().locks().release(owner.handle, owner.holder);
    if (!released) all = std::move(released);
  }
  if (file != nullptr) {
    auto closed = co_await file->close();
    if (!closed) all = std::move(closed).error();
  }
  co_return all;
}

}  // namespace spate::preload
