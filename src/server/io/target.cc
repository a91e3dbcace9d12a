// SPDX-License-Identifier: Apache-2.0
#include "server/io/target.h"

namespace spate::io {

job::Task<Result<trove::BytestreamCompletion>> run_op(Target& target, flow::Asker asker,
                                                      trove::BytestreamRequest request, job::StopToken stop) {
  flow::SchedulerRequest place;
  place.client = asker.client;
  place.priority = asker.priority;
  place.datafile = request.id;
  if (!request.extents.empty()) place.offset = request.extents.front().offset;
  SPATE_CO_TRY(const auto ticket, co_await target.device.scheduler().admit(place, stop));
  trove::BytestreamCompletion done = co_await target.device.storage().run(request);
  if (done.status != Errc::kOk) co_return done.status;
  co_return done;
}

job::Task<Result<trove::BytestreamStat>> stat_datafile(Target& target, flow::Asker asker, DatafileId id,
                                                       job::StopToken stop) {
  trove::BytestreamRequest request;
  request.op = trove::BytestreamOp::kStat;
  request.id = id;
  SPATE_CO_TRY(const trove::BytestreamCompletion done, co_await run_op(target, asker, request, stop));
  co_return done.stat;
}

}  // namespace spate::io
