// SPDX-License-Identifier: Apache-2.0
// DeferredByRun: what one run of an operation leaves to be done when its function has returned.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_function.h"
#include "job/task.h"
#include "model/ids.h"

namespace spate::meta {

/// The function of an operation fills it in. MetaCore carries it out if the run is committed, and drops it otherwise.
/// The actions and tasks must not refer to the function's frame, which is gone by then. Life cycle: construct -> for
/// each run: begin() -> the function's calls -> MetaCore's calls. One executor.
class DeferredByRun {
 public:
  using Wait = UniqueFunction<job::Task<Result<void>>()>;

  /// A run begins: drops what the run before has left.
  void begin() { *this = DeferredByRun(); }

  /// This run creates (1) or removes (-1) an object. For statfs.
  void count_object(int difference) { objects_made_ += difference; }
  int objects_made() const { return objects_made_; }

  /// Called once, after this run's transaction has been committed.
  void when_committed(UniqueFunction<void()> action) { actions_.push_back(std::move(action)); }
  void run_actions() {
    for (auto& action : actions_) action();
  }

  /// The operation awaits this task after the commit and before the reply. Its error becomes the reply, although the
  /// change is committed.
  void finish_with(Wait finish) { finishes_.push_back(std::move(finish)); }
  /// The tasks of finish_with(), in the order of the calls.
  std::vector<Wait>& finishes() { return finishes_; }

  /// The change is committed, but the reply is this error.
  void answer_with(Error error) { answer_ = std::move(error); }
  /// The error that answer_with() was given in this run; also for a function that runs other functions.
  std::optional<Error> take_answer() { return std::exchange(answer_, std::nullopt); }

  /// This run's transaction holds a truncate intent for the file. The answer waits until the truncation has been
  /// carried out; so does the answer to a resend.
  void answer_after_truncate(Handle handle) { truncates_ = handle; }
  /// The file of answer_after_truncate(); false if it was not called in this run.
  Handle truncates() const { return truncates_; }

  /// This run cannot go on before `wait` has ended. The operation releases its locks and its transaction, awaits
  /// `wait`, and runs again, or fails with the error of `wait`. Yields the kConflict for the function to pass on.
  Errc run_again_after(Wait wait) {
    wait_ = std::move(wait);
    return Errc::kConflict;
  }
  /// Takes run_again_after() back; also for a function that runs other functions. Empty: it was not called in this run.
  Wait take_wait() { return std::exchange(wait_, {}); }

 private:
  int objects_made_ = 0;
  std::vector<UniqueFunction<void()>> actions_;
  std::vector<Wait> finishes_;
  std::optional<Error> answer_;
  Handle truncates_;
  Wait wait_;
};

}  // namespace spate::meta
