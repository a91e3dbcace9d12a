// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/change_at.h"

#include "server/io/target.h"

namespace spate::io {

job::Task<Result<trove::BytestreamCompletion>> change_at(Place place, trove::BytestreamRequest request,
                                                         MirrorExtras extras, flow::Asker asker, job::StopToken stop) {
  if (place.term != nullptr) {
    auto changed = co_await place.term->change(request, extras, asker, stop);
    co_return changed;
  }
  auto done = co_await run_op(*place.target, asker, request, stop);
  co_return done;
}

job::Task<Result<trove::BytestreamCompletion>> MirrorWriter::write(trove::BytestreamRequest request,
                                                                   job::StopToken stop) {
  request.direct = false;
  auto written = co_await change_at(place_, request, {}, asker_, stop);
  co_return written;
}

}  // namespace spate::io
