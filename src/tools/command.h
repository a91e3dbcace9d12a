// SPDX-License-Identifier: Apache-2.0
// Command: one subcommand of `spate`, described as data; cli.cc alone knows the library that parses them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tools/context.h"

namespace spate::tools {

/// An option ("-r,--recursive") or a positional ("SOURCE"). The target receives the value before `run` is called; its
/// value before is the default.
struct Argument {
  std::string name;
  std::string help;
  std::variant<bool*, std::string*, std::uint64_t*, std::optional<std::uint64_t>*, std::vector<std::string>*> target;
  bool required = false;
  std::vector<std::string> choices = {};  // for completion, when only these are taken
};

/// The targets of its arguments live in a state that `run` holds (a shared_ptr captured by it).
struct Command {
  std::string name;
  std::string group;    // of the help page: "Start and stop", "Look", ...; empty: not shown
  std::string summary;  // one line
  std::string details;  // more, for `spate NAME --help`; may be empty
  std::vector<Argument> options;
  std::vector<Argument> positionals;
  std::function<int(Context&)> run;  // returns the exit code
  /// The first word that is no option begins another program's command line: nothing behind it is parsed here.
  bool starts_program = false;
};

/// 0: done. 1: something failed (told on standard error). 2: the command line was wrong.
constexpr int kExitOk = 0;
constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
/// Whoever read standard output has left: silent, and what a shell shows of a program that SIGPIPE ended.
constexpr int kExitNoReader = 141;
/// Of `spate run`, as shells do: there is no such program; it cannot be started.
constexpr int kExitNoProgram = 127;
constexpr int kExitNotStarted = 126;

/// All subcommands, in the order of the help page. One make_... function a file.
std::vector<Command> all_commands();

/// Parses the command line and runs what it says. Returns the exit code.
int run_command_line(int argc, char** argv);

}  // namespace spate::tools
