// SPDX-License-Identifier: Apache-2.0
// StopSource, StopToken, StopCallback: cancellation within one executor (not thread-safe, nothing is allocated).
#pragma once

#include "base/check.h"
#include "base/error.h"

namespace spate::job {

class StopCallback;

/// The side that asks for a stop. Pinned. It outlives its tokens and their callbacks: a token only points to it. Not
/// thread-safe: source, tokens and callbacks belong to one executor's thread.
class StopSource {
 public:
  StopSource() = default;
  StopSource(const StopSource&) = delete;
  StopSource& operator=(const StopSource&) = delete;
  ~StopSource() { SPATE_CHECK(first_ == nullptr); }

  /// Calls each registered callback once; later calls do nothing. `reason` is kCancelled or kTimeout.
  void request_stop(Errc reason = Errc::kCancelled);
  bool stopped() const { return reason_ != Errc::kOk; }
  Errc reason() const { return reason_; }

 private:
  friend class StopCallback;
  StopCallback* first_ = nullptr;
  Errc reason_ = Errc::kOk;
};

/// The side that is asked to stop. A value; a default token is never stopped. By convention it is the last parameter of
/// a coroutine.
class StopToken {
 public:
  StopToken() = default;
  StopToken(StopSource& source) : source_(&source) {}  // NOLINT(google-explicit-constructor)
  bool stopped() const { return source_ != nullptr && source_->stopped(); }
  /// kOk while not stopped.
  Errc reason() const { return source_ == nullptr ? Errc::kOk : source_->reason(); }

 private:
  friend class StopCallback;
  StopSource* source_ = nullptr;
};

/// Calls `action(argument)` when the token's source stops, unless the callback is destroyed before. It is not called
/// for a source that has already stopped: test token.stopped() first. Pinned. The action may destroy the callback.
class StopCallback {
 public:
  using Action = void (*)(void* argument);

  StopCallback() = default;
  StopCallback(StopToken token, Action action, void* argument) { arm(token, action, argument); }
  StopCallback(const StopCallback&) = delete;
  StopCallback& operator=(const StopCallback&) = delete;
  ~StopCallback() { disarm(); }

  void arm(StopToken token, Action action, void* argument);
  void disarm();

 private:
  friend class StopSource;
  StopSource* source_ = nullptr;
  StopCallback* next_ = nullptr;
  StopCallback* previous_ = nullptr;
  Action action_ = nullptr;
  void* argument_ = nullptr;
};

}  // namespace spate::job
