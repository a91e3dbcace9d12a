// SPDX-License-Identifier: Apache-2.0
// UsedNumbers: the io servers' word on which numbers have been given out (docs/availability.md, "What to do when
// something is lost").
#pragma once

#include <functional>
#include <vector>

#include "job/event.h"
#include "job/gate.h"
#include "server/meta/core/parts.h"

namespace spate::meta {

/// Asks each io server once, in the background, which numbers it has met. Each answer is told to a listener. After a
/// restart from a backup of the store, they show numbers that the store does not know.
///
/// One executor; pinned. Life cycle: construct -> start() -> known() -> stop() awaited -> destroyed. stop() ends the
/// questions and waits for them.
class UsedNumbers {
 public:
  /// `parts` outlives it.
  UsedNumbers(job::Executor& executor, const MetaParts& parts);
  UsedNumbers(const UsedNumbers&) = delete;
  UsedNumbers& operator=(const UsedNumbers&) = delete;

  using Listener = std::function<void(ServerId, const wire::UsedNumbersReply&)>;
  /// `patience`: how long known() waits at most, from now on. A silent server is asked on after that.
  void start(const std::vector<ServerId>& servers, Duration patience, Listener listener);
  /// Waits until all servers have answered, or the patience is over. Ends at once from then on.
  job::Task<Result<void>> known(job::StopToken stop);
  job::Task<void> stop();

 private:
  job::Task<void> ask(ServerId server);
  job::Task<void> end_patience(Duration patience);

  job::Executor& executor_;
  const MetaParts& parts_;
  Listener listener_;
  std::size_t unanswered_ = 0;
  job::Event known_;
  job::StopSource stopping_;
  job::Gate gate_;
};

}  // namespace spate::meta
