// SPDX-License-Identifier: Apache-2.0
// Runs a single storage operation when the device's scheduler admits it.
#pragma once

#include "server/io/target.h"

namespace spate::io {

/// Runs one operation on one datafile of `target`. The memory behind the request's spans outlives the task. Yields the
/// completion, whose status is kOk.
job::Task<Result<trove::BytestreamCompletion>> run_op(Target& target, flow::Asker asker,
                                                      trove::BytestreamRequest request, job::StopToken stop);
job::Task<Result<trove::BytestreamStat>> stat_datafile(Target& target, flow::Asker asker, DatafileId id,
                                                       job::StopToken stop);

}  // namespace spate::io
