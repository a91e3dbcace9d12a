// SPDX-License-Identifier: Apache-2.0
// Context: what every subcommand shares: the global options, the file system it works on, and how it speaks.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "assembly/client_process.h"
#include "tools/output.h"

namespace spate::tools {

/// One per run of the command. The file system is opened at its first use.
class Context {
 public:
  // Global options.
  std::string fs;                      // --fs: a spate.toml or the folder that holds one
  bool json = false;                   // --json
  bool quiet = false;                  // -q
  std::vector<std::string> overrides;  // --set KEY=VALUE

  bool names_dead_servers = true;  // on standard error, when the file system is opened; for who does not tell itself

  /// Called when a server has kept a call waiting for some seconds, and when that is over. Null: nobody minds.
  std::function<void(bool waits)> on_wait;

  /// The spate.toml to use: --fs, else SPATE_FS, else the file system that `spate up` started last, else
  /// /etc/spate/spate.toml.
  Result<std::string> config_file() const;
  /// Values given outside of the file: by the environment, then by --set.
  Result<std::vector<config::Override>> config_overrides() const;
  /// What it takes to open a client of this spate.toml; also makes the log as quiet as a command wants it.
  Result<assembly::ClientSettings> client_settings(std::string config_file) const;
  /// kUnreachable of what `spate up` started and `spate down` has stopped: nothing to wait for.
  Result<void> check_running() const;
  /// The file system, opened on first use (with_server_key: as an administrator, for fsck).
  Result<assembly::ClientProcess*> file_system(bool with_server_key = false);

  /// Prints "spate: message" on standard error and returns kExitFailed. `what` names the object ("spate:/a"). With
  /// --json the failure is part of what is printed, too (docs/json.md).
  int fail(const Error& error, std::string_view what = {});
  int fail(std::string_view message);
  /// The same of a server, which most errors name themselves; the command puts it into its result by itself.
  int fail_of(ServerId server, const Error& error);
  /// The same of a failure that the command has put into its result by itself: only printed on standard error.
  int tell(std::string_view message) const;
  /// kExitUsage, with a hint at --help.
  int usage(std::string_view message);
  /// The same for a path that does not begin with spate:, with the path that was probably meant.
  int usage_not_remote(std::string_view path);

  /// Prints the result of a command under --json, with what has failed so far: a list gets a row for each failure, an
  /// object a member "failures". Once a run.
  void print_json(nlohmann::json value);
  /// Prints what has failed, if --json was given and no result was printed. Called at the end.
  void print_failures();

  bool stdout_is_terminal() const;
  bool stderr_is_terminal() const;

 private:
  struct Failure {
    std::string path;  // empty: of nothing in particular
    std::string code;  // the name of an Errc; empty: none
    std::string message;
  };
  static nlohmann::json to_json(const Failure& failure);
  void tell_wait(const rpc::ServerWait& wait) const;

  std::unique_ptr<assembly::ClientProcess> process_;
  std::vector<Failure> failures_;
  bool printed_result_ = false;
};

/// The file system of this machine: what a user has who names none.
inline constexpr const char* kMachineConfig = "/etc/spate/spate.toml";

/// Error: this spate.toml does not exist. Its text says how to make one.
Error no_file_system(const std::string& config_file);

/// "spate:/a/b" names something in the file system; anything else is a local path.
bool is_remote(std::string_view path);
/// "/a/b" of "spate:/a/b"; "spate:" alone is the root. `path` must be remote.
std::string remote_path(std::string_view path);
/// The parts of a path, as dirname and basename do ("/a/b/" -> "/a", "b").
std::pair<std::string, std::string> split_path(std::string_view path);
std::string join_path(std::string_view folder, std::string_view name);

/// The folder given by --dir, else that of the file system in use. Absolute.
Result<std::string> folder_of(const Context& context, const std::string& given);

}  // namespace spate::tools
