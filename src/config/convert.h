// SPDX-License-Identifier: Apache-2.0
// Converts the text of a file, a variable or an argument to a key's Value, with every check that needs no other key.
#pragma once

#include <string_view>

#include "base/result.h"
#include "config/keys.h"
#include "config/raw.h"

namespace spate::config {

/// kInvalidArgument with a message that says what is allowed.
Result<Value> convert(const Key& key, const RawValue& raw);

/// The raw value of a variable's or argument's text: commas separate lists, numbers need no quotes.
RawValue raw_from_text(const Key& key, std::string_view text);

/// The nearest key (or section, if `section` is empty) as `did you mean "..."?`, or "" if none is near.
std::string suggest(std::string_view section, std::string_view name);

/// The number of insertions, deletions, replacements and swaps of neighbours that turn one into the other. Source:
/// DAMERAU (optimal string alignment). O(a.size() * b.size()); both are cut at 64 characters.
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace spate::config
