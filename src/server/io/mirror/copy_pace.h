// SPDX-License-Identifier: Apache-2.0
// CopyPace: how fast a server copies to members of groups that return.
#pragma once

#include "job/semaphore.h"
#include "metrics/metrics.h"

namespace spate::io {

/// One for all groups of a server. One executor; pinned.
class CopyPace {
 public:
  /// So many pieces, of at most 1 MiB, are read and sent at the same time.
  static constexpr std::size_t kAtOnce = 8;

  /// `rate`: bytes a second in all; 0: no limit.
  CopyPace(job::Executor& executor, std::uint64_t rate, metrics::Registry& metrics)
      : executor_(executor),
        rate_(rate),
        turns_(executor, kAtOnce),
        bytes_(metrics, "spate_server_io_copied_to_members_bytes_total") {}
  CopyPace(const CopyPace&) = delete;
  CopyPace& operator=(const CopyPace&) = delete;

  /// Waits until one more piece may be copied. The piece counts as under way until the units are destroyed. A task
  /// that holds units may wait for requests of clients, but never for a task that waits for units.
  job::Task<Result<job::Semaphore::Units>> turn(job::StopToken stop);
  /// `bytes` bytes of a piece were sent. Later pieces wait until they fit into the rate, of which at most a tenth of a
  /// second is made up for.
  void copied(std::uint64_t bytes);

 private:
  job::Executor& executor_;
  const std::uint64_t rate_;
  job::Semaphore turns_;
  MonoTime next_;  // no piece begins before
  metrics::Counter bytes_;
};

}  // namespace spate::io
