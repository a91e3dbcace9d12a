// SPDX-License-Identifier: Apache-2.0
// Copies: what somebody else keeps of the attribute cache's answers: the kernel, behind a mount (docs/consistency.md,
// "The kernel's copies").
#pragma once

#include "base/clock.h"
#include "base/unique_function.h"
#include "job/executor.h"
#include "job/stop.h"
#include "job/task.h"
#include "model/ids.h"

namespace spate::client {

/// Taken back when the cache does not keep any more what they are copies of; a recall is acknowledged, and a change of
/// this client's own is sent, when that is done. Thread-safe; the calls return at once, and call nothing of the cache:
/// it has its lock then.
class Copies {
 public:
  virtual ~Copies() = default;

  /// Whether copies of names can be taken back; else there are none.
  virtual bool takes_names() const = 0;
  /// A copy of the object's attributes is about to be given away, that is used until then at the longest. False: it
  /// must not be.
  virtual bool begin_attributes(Handle object, MonoTime until) = 0;
  virtual void drop_attributes(Handle object) = 0;
  /// All of them.
  virtual void drop_names() = 0;
  /// False: whatever was to be dropped is. Else `then` is called once that is done, by any thread, or never if the
  /// copies end before.
  virtual bool when_dropped(UniqueFunction<void()> then) = 0;
};

/// Ends when all copies are gone that were to be dropped before. That waits for nobody but the thread that drops them.
/// The token's reason when stopped first. `copies`: null if nobody keeps any.
job::Task<Result<void>> copies_dropped(Copies* copies, job::Executor& executor, job::StopToken stop);

}  // namespace spate::client
