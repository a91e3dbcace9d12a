// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/copy_pace.h"

#include <algorithm>

namespace spate::io {
namespace {

/// All pieces that wait begin together, and none of them ends for the time that it takes to send one. This much time
/// is made up for.
constexpr Duration kMadeUpFor = std::chrono::milliseconds(100);

}  // namespace

job::Task<Result<job::Semaphore::Units>> CopyPace::turn(job::StopToken stop) {
  SPATE_CO_TRY(job::Semaphore::Units turn, co_await turns_.acquire(1, stop));
  while (executor_.now() < next_) {
    SPATE_CO_TRY(std::ignore, co_await executor_.sleep_until(next_, stop));
  }
  co_return std::move(turn);
}

void CopyPace::copied(std::uint64_t bytes) {
  bytes_.add(bytes);
  if (rate_ == 0) return;
  const double seconds = static_cast<double>(bytes) / static_cast<double>(rate_);
  next_ = std::max(next_, executor_.now() + -kMadeUpFor) + Duration(static_cast<std::int64_t>(seconds * 1e9));
}

}  // namespace spate::io
