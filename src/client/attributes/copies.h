// SPDX-License-Identifier: Apache-2.0
// Copies: the copies that somebody else keeps of the attribute cache's answers, such as the kernel behind a mount
// (docs/consistency.md, "The kernel's copies").
#pragma once

#include "base/clock.h"
#include "base/unique_function.h"
#include "job/executor.h"
#include "job/stop.h"
#include "job/task.h"
#include "model/ids.h"

namespace spate::client {

/// Copies are taken back when the cache drops the original. A recall is acknowledged, and an own change is sent, only
/// after that. Thread-safe. The calls return at once and do not call the cache, which holds its lock then.
class Copies {
 public:
  virtual ~Copies() = default;

  /// Whether copies of names can be taken back. If not, no names are copied.
  virtual bool takes_names() const = 0;
  /// A copy of the object's attributes is about to be given away, for use until `until` at the latest. False: it must
  /// not be.
  virtual bool begin_attributes(Handle object, MonoTime until) = 0;
  virtual void drop_attributes(Handle object) = 0;
  /// Drops all copies of names.
  virtual void drop_names() = 0;
  /// False: everything that had to be dropped is dropped. True: `then` is called once that is done, by any thread, or
  /// never if the holder of the copies ends before.
  virtual bool when_dropped(UniqueFunction<void()> then) = 0;
};

/// Ends when all copies that had to be dropped before the call are dropped. It waits for nobody but the thread that
/// drops them. If stopped first: the token's reason. `copies`: null if nobody keeps any.
job::Task<Result<void>> copies_dropped(Copies* copies, job::Executor& executor, job::StopToken stop);

}  // namespace spate::client
