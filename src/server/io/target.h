// SPDX-License-Identifier: Apache-2.0
// Target: a storage device of this server.
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

}  // namespace spate::io
