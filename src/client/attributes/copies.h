// SPDX-License-Identifier: Apache-2.0
// Copies: the interface to a holder of copies of the attribute cache's answers, such as the kernel behind a mount
// (docs/consistency.md, "The kernel's copies").
#pragma once

#include "base/clock.h"
#include "base/unique_function.h"
#include "job/executor.h"
#include "job/stop.h"
#include "job/task.h"
#include "model/ids.h"

namespace spate::client {

/// The cache has copies taken back when it drops the original. Only after that is a recall acknowledged, or an own
/// change sent. Thread-safe. The calls return at once and do not call the cache, which holds its lock meanwhile.
class Copies {
 public:
  virtual ~Copies() = default;

  /// The directories whose names the cache may give copies of.
  enum class Names : std::uint8_t {
    kOfNone,       // copies of names cannot be taken back
    kOfDelegated,  // they are taken back only when a directory's delegation is recalled, which is rare
    kOfAll
  };
  virtual Names takes_names() const = 0;
  /// Whether a copy ends by itself within some milliseconds. Such copies may be given of a file that this client
  /// writes.
  virtual bool brief() const { return false; }
  /// The cache is about to give away a copy of the object's attributes, for use until `until` at the latest. False: it
  /// must not do that.
  virtual bool begin_attributes(Handle object, MonoTime until) = 0;
  virtual void drop_attributes(Handle object) = 0;
  /// Drops all copies of names.
  virtual void drop_names() = 0;
  /// False: everything that had to be dropped is dropped. True: some thread calls `then` once that is done. `then` is
  /// never called if the holder of the copies ends before.
  virtual bool when_dropped(UniqueFunction<void()> then) = 0;
};

/// Ends when all copies that had to be dropped before the call are dropped; waits only for the thread that drops them.
/// If stopped before: the token's reason. `copies`: null if nobody keeps any.
job::Task<Result<void>> copies_dropped(Copies* copies, job::Executor& executor, job::StopToken stop);

}  // namespace spate::client
