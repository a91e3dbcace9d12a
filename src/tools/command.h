// SPDX-License-Identifier: Apache-2.0
// Command: one subcommand of `spate`, described as data; only cli.cc knows the library that parses them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tools/context.h"
#include "tools/output.h"

namespace spate::tools {

/// An option ("-r,--recursive") or a positional argument ("SOURCE"). The target receives the value before `run` is
/// called; its earlier value is the default.
struct Argument {
  std::string name;
  std::string help;
  std::variant<bool*, std::string*, std::uint64_t*, std::optional<std::uint64_t>*, std::vector<std::string>*> target;
  bool required = false;
  // For completion:
  std::vector<std::string> choices = {};                  // only these are accepted
  bool is_list = false;                                   // several of them, separated by commas
  std::function<std::vector<std::string>()> offers = {};  // names on this machine to propose, besides local files
};

/// The targets of its arguments live in a state that `run` holds (a shared_ptr captured by it).
struct Command {
  std::string name;
  std::string group;    // of the help page: "Start and stop", "Look", ...; empty: not listed there
  std::string summary;  // one line
  std::string details;  // longer text for `spate NAME --help`; may be empty
  std::vector<Argument> options;
  std::vector<Argument> positionals;
  std::function<int(Context&)> run;  // returns the exit code
  /// The first word that is not an option begins another program's command line: Spate parses nothing after it.
  bool starts_program = false;
};

/// Options that every command accepts besides its own, also before its name.
std::vector<Argument> global_options(Context& context);
/// Whether it is one of them whose value is the next word ("--fs /data").
bool global_takes_next_word(std::string_view word);
/// The last lines of `spate help`.
inline constexpr const char* kExitCodes =
    "Exit codes: 0 success; 1 a failure, which standard error explains; 2 a wrong command line.";
inline constexpr const char* kWhichFileSystem =
    "Without --fs, SPATE_FS names the file system. Without\n"
    "both it is the one that `spate up` started last, or else that of /etc/spate/spate.toml.";

/// All subcommands, in the order of the help page. Each file has a make_... function.
std::vector<Command> all_commands();

/// Parses the command line and runs the command. Returns the exit code.
int run_command_line(int argc, char** argv);

}  // namespace spate::tools
