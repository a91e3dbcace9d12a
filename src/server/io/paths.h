// SPDX-License-Identifier: Apache-2.0
// Chooses the path of a request's stream on this server: collects the facts that flow/policy.h needs.
#pragma once

#include "flow/policy.h"
#include "server/io/parts.h"

namespace spate::io {

/// One stream whose path is to be chosen. Description and distribution outlive the call.
struct StreamParams {
  flow::Direction direction = flow::Direction::kRead;
  wire::DataPath asked = wire::DataPath::kAutomatic;
  const datatype::Description& what;
  const Distribution& distribution;
  std::uint32_t unit_bytes = 0;
  bmi::Address peer = {};
  bool sealed = false;  // as in flow::PathFacts
};

struct ChosenPath {
  flow::PathChoice choice;
  Extent run;  // direct writes: the range of the datafile that is written
};

/// Counts and logs if the policy had to take another path than it preferred. kNotSupported: the request names a path
/// that is not possible. `stat` is the datafile's; `has_descriptor` as in flow::PathFacts.
job::Task<Result<ChosenPath>> path_for(Parts& parts, ResolvedSlot& slot, const StreamParams& params,
                                       trove::BytestreamStat stat, bool has_descriptor);

/// Fails with kInvalidArgument if an inline request names a path: it must send its data in bulk, since inline data
/// takes another path.
Result<void> check_inline(wire::DataPath asked);
/// Call it for data in a request or reply. If the configuration names a path, this is a fall-back: counts and logs it.
void note_inline(Parts& parts, flow::Direction direction);

}  // namespace spate::io
