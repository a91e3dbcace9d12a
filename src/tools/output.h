// SPDX-License-Identifier: Apache-2.0
// Output of commands, and their exit codes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace spate::tools {

/// 0: done. 1: something failed (standard error says what). 2: the command line was wrong.
constexpr int kExitOk = 0;
constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
/// The reader of standard output has closed it. The command ends without a message, with the code that a shell shows
/// for a program that SIGPIPE ended.
constexpr int kExitNoReader = 141;
/// Exit codes of `spate run`, as in shells: there is no such program; the program cannot be started.
constexpr int kExitNoProgram = 127;
constexpr int kExitNotStarted = 126;

/// Prints to standard output. Exits with a message if that fails, since a full disk is not success.
void print(std::string_view text);
/// Prints a value to standard output, indented. Replaces bytes that are not UTF-8.
void print_json(const nlohmann::json& value);

}  // namespace spate::tools
