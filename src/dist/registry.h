// SPDX-License-Identifier: Apache-2.0
// The distributions that this build knows, by number and by name.
#pragma once

#include <span>

#include "dist/type.h"

namespace spate {

/// All distributions, the default first. The list exists until the program ends.
std::span<const DistributionType* const> distribution_types();

/// Parses "NAME" or "NAME:PARAMETERS", as users choose a distribution (docs/commands.md, setstripe). kInvalidArgument:
/// there is no such name (the message lists the names), or the distribution does not take these parameters.
Result<DistributionSpec> parse_distribution(std::string_view text);
/// The form that parse_distribution() reads. "distribution 77" if this build does not know the kind or its parameters.
std::string describe(const DistributionSpec& spec);

/// How many slots a new file gets (DistributionType::slots). kNotSupported: this build does not know the kind.
Result<std::size_t> slots_of(const DistributionSpec& spec, std::size_t wanted, std::size_t most);
/// Makes the distribution from Layout's fields; `slots` is Layout::slots.size(). Checks values from outside:
/// kInvalidArgument if the strip, the number of slots or a parameter is out of range, kNotSupported for a kind that
/// this build does not know. The result refers to nothing.
Result<std::unique_ptr<const Distribution>> make_distribution(const DistributionSpec& spec, std::uint64_t strip_bytes,
                                                              std::size_t slots);
Result<std::unique_ptr<const Distribution>> make_distribution(const Layout& layout);

}  // namespace spate
