// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/sync_noted.h"

#include "job/deadline.h"
#include "job/run_all.h"
#include "server/io/sync.h"

namespace spate::io {

job::Task<Result<void>> sync_mirrored(Parts& parts, MirrorGroup& group, DatafileId datafile, job::StopToken stop) {
  SPATE_CO_TRY(const SyncOutcome outcome, co_await sync_datafile(parts, group.target, datafile, stop));
  if (outcome.lossy) co_return Error(Errc::kIoError, "write-back has failed");
  // Without its place in the list, the datafile would not be copied to a member that lacks all data.
  auto durable = co_await group.log.make_durable();
  co_return durable;
}

job::Task<Result<void>> sync_noted(Parts& parts, MirrorGroup& group, std::uint64_t window, job::StopToken stop) {
  job::DeadlineScope scope(parts.executor, MonoTime::never(), stop);
  std::vector<job::Task<Result<void>>> tasks;
  for (const DatafileId& datafile : group.log.datafiles(window))
    tasks.push_back(sync_mirrored(parts, group, datafile, scope.token()));
  auto done = co_await job::run_all(parts.executor, std::move(tasks), scope.source());
  co_return done;
}

}  // namespace spate::io
