// SPDX-License-Identifier: Apache-2.0
// Output of commands.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace spate::tools {

/// Prints to standard output. Exits with a message if that fails, since a full disk is not success.
void print(std::string_view text);
/// Prints a value to standard output, indented. Replaces bytes that are not UTF-8.
void print_json(const nlohmann::json& value);

}  // namespace spate::tools
