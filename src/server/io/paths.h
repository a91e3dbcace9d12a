// SPDX-License-Identifier: Apache-2.0
// Which path a request's stream takes on this server: finds out what flow/policy.h has to know.
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
  Extent run;  // direct writes: what of the datafile is written
};

/// Counts and logs when the policy had to take another path than it wanted; kNotSupported for a path that was asked for
/// by name and cannot be had. `stat` is the datafile's; `has_descriptor` as in flow::PathFacts.
job::Task<Result<ChosenPath>> path_for(Parts& parts, ResolvedSlot& slot, const StreamParams& params,
                                       trove::BytestreamStat stat, bool has_descriptor);

/// A request that names a path has its data in bulk: in a message they would take another one. kInvalidArgument.
Result<void> check_inline(wire::DataPath asked);
/// Data went in a request or reply. Where the configuration names a path that is a fall-back: counted and logged.
void note_inline(Parts& parts, flow::Direction direction);

}  // namespace spate::io
