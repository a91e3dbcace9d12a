// SPDX-License-Identifier: Apache-2.0
// Single storage operations, in their device's turn.
#pragma once

#include "server/io/target.h"

namespace spate::io {

/// One operation on one datafile of `target`. What the request's spans name outlives the task. Yields the completion,
/// whose status is kOk.
job::Task<Result<trove::BytestreamCompletion>> run_op(Target& target, flow::Asker asker,
                                                      trove::BytestreamRequest request, job::StopToken stop);
job::Task<Result<trove::BytestreamStat>> stat_datafile(Target& target, flow::Asker asker, DatafileId id,
                                                       job::StopToken stop);

}  // namespace spate::io
