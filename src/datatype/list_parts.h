// SPDX-License-Identifier: Apache-2.0
// Splits a list into the parts that the servers need.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "datatype/description.h"
#include "dist/distribution.h"

namespace spate::datatype {

/// Splits a list among groups of slots (servers). Each part has those pieces of which at least one byte lies in a slot
/// of the group, in the list's order. A slot's stream is the same in the part as in the list, so a server that gets
/// only its part does the same work without a look at the pieces of others. `group_of[slot]`: below `groups`, or larger
/// if no group wants the slot. Precondition: `list` is of kind kList. O(pieces + strips that they span).
std::vector<Description> split_list(const Description& list, const Distribution& distribution,
                                    std::span<const std::size_t> group_of, std::size_t groups);

}  // namespace spate::datatype
