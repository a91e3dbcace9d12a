// SPDX-License-Identifier: Apache-2.0
// What commands print.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace spate::tools {

/// Prints to standard output; exits with a message when that fails (a full disk is not success).
void print(std::string_view text);
/// Prints a value to standard output, indented. Text in it that is not UTF-8 is made so.
void print_json(const nlohmann::json& value);

}  // namespace spate::tools
