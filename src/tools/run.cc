// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "tools/commands.h"

namespace spate::tools {
namespace {

namespace fs = std::filesystem;

struct RunArguments {
  std::string prefixes;
  bool leases = false;
  bool mpi = false;
  std::vector<std::string> program;
};

/// Looks in the build folder and where it is installed.
std::string find_library(const char* name) {
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& folder : {own / "../lib", own / "../lib/x86_64-linux-gnu", own / "../lib64"}) {
    const fs::path file = folder / name;
    if (fs::exists(file, error)) return fs::weakly_canonical(file, error).string();
  }
  return {};
}

/// The environment variable for "section.key=value".
std::pair<std::string, std::string> as_variable(const std::string& setting) {
  const std::size_t equals = setting.find('=');
  std::string name = "SPATE_" + setting.substr(0, equals);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return c == '.' ? '_' : static_cast<char>(std::toupper(c)); });
  return {name, equals == std::string::npos ? "" : setting.substr(equals + 1)};
}

/// Makes the paths of configurations absolute, since programs may change their directory before they read them.
std::string absolute_list(std::string rest) {
  std::string list;
  while (!rest.empty()) {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    std::string one = rest.substr(0, colon);
    rest = rest.substr(std::min(colon + 1, rest.size()));
    const std::size_t equals = one.find('=');
    if (equals != std::string::npos && equals + 1 < one.size())
      one = one.substr(0, equals + 1) + fs::absolute(one.substr(equals + 1)).string();
    list += (list.empty() ? "" : ":") + one;
  }
  return list;
}

Result<void> set_environment(Context& context, const RunArguments& arguments) {
  std::string library = find_library("libspate-preload.so");
  if (library.empty())
    return Error::told(Errc::kNotFound, "libspate-preload.so is not beside this program (in ../lib)");
  std::string front;
  if (arguments.mpi) {
    front = find_library("libspate-mpi.so");
    if (front.empty())
      return Error::told(Errc::kNotFound,
                         "libspate-mpi.so is not beside this program (in ../lib): it is in the package spate-mpi");
  }
  SPATE_TRY(const std::string config, context.config_file());
  SPATE_TRY(std::ignore, context.config_overrides());  // report errors here, not in the program
  const char* const before = std::getenv("LD_PRELOAD");
  std::string preload = before == nullptr || *before == '\0' ? library : library + ":" + before;
  // Behind the libraries that were there: a profiling library must get the program's calls first, and repeats them by
  // their PMPI_ names.
  if (arguments.mpi) preload += ":" + front;
  ::setenv("LD_PRELOAD", preload.c_str(), 1);
  ::setenv("SPATE_FS", fs::absolute(config).c_str(), 1);
  for (const std::string& setting : context.overrides) {
    const auto [name, value] = as_variable(setting);
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  if (arguments.leases) ::setenv("SPATE_CLIENT_ATTRIBUTE_CACHE", "all", 1);
  if (!arguments.prefixes.empty()) ::setenv("SPATE_PREFIX", absolute_list(arguments.prefixes).c_str(), 1);
  return {};
}

int run_program(Context& context, const RunArguments& arguments) {
  if (auto set = set_environment(context, arguments); !set) return context.fail(set.error());
  std::vector<char*> words;
  for (const std::string& word : arguments.program) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  std::signal(SIGPIPE, SIG_DFL);  // the program would inherit an ignored signal
  ::execvp(words.front(), words.data());
  const int error = errno;
  std::ignore = context.fail(errno_error(error, "start " + arguments.program.front()));
  return error == ENOENT ? kExitNoProgram : kExitNotStarted;
}

}  // namespace

Command make_run() {
  auto arguments = std::make_shared<RunArguments>();
  Command command;
  command.name = "run";
  command.group = "Unchanged programs";
  command.summary = "run a program that sees the file system as /spate, without a mount";
  command.details =
      "spate run ls -l /spate\n"
      "Programs that it starts see the file system, too. Statically linked programs do not (`spate check-binary`).\n"
      "docs/preload.md says what works.";
  command.options = {
      {"--at", "the place instead of /spate: PREFIX or PREFIX=SPATE.TOML, several separated by ':'",
       &arguments->prefixes},
      {"--leases", "cache names and attributes, as mounts do; docs/preload.md says what that costs other clients",
       &arguments->leases},
      {"--mpi", "for MPI programs: MPI_File_... on the file system goes to Spate, too; docs/mpi-io.md",
       &arguments->mpi}};
  command.positionals = {{"PROGRAM", "the program and its arguments", &arguments->program, true}};
  command.starts_program = true;
  command.run = [arguments](Context& context) { return run_program(context, *arguments); };
  return command;
}

}  // namespace spate::tools
