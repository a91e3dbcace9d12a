// SPDX-License-Identifier: Apache-2.0
// Target: a storage device of this server, and single operations on it.
#pragma once

#include <string>

#include "flow/device.h"
#include "server/io/options.h"

namespace spate::io {

/// A storage device of this server.
struct Target {
  Target(const IoTarget& its, job::Executor& executor, const flow::SchedulerOptions& scheduler)
      : description(its), direct(its.storage.store().direct()), device(its.storage, executor, scheduler) {}
  const IoTarget description;
  const trove::DirectAbility direct;
  /// The reason why its device cannot serve the p2p path (peer_memory.h); empty: it can.
  std::string peer_refusal = "it has not been tried yet";
  flow::Device device;
  bool is_full = false;  // and that has been logged (full_target.h)
};

/// Runs one operation on one datafile of `target` when the device's scheduler admits it. The memory behind the
/// request's spans outlives the task. Yields the completion, whose status is kOk.
job::Task<Result<trove::BytestreamCompletion>> run_op(Target& target, flow::Asker asker,
                                                      trove::BytestreamRequest request, job::StopToken stop);
job::Task<Result<trove::BytestreamStat>> stat_datafile(Target& target, flow::Asker asker, DatafileId id,
                                                       job::StopToken stop);

}  // namespace spate::io
