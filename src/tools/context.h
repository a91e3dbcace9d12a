// SPDX-License-Identifier: Apache-2.0
// Context: state that all subcommands share: the global options, the file system, and the output of messages.
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

/// One in each run of the command. One thread. It opens the file system at the first use, and closes it in the
/// destructor, which ends the session and waits for that at most a second. Failures are collected for --json until the
/// result is printed.
class Context {
 public:
  // Global options.
  std::string fs;                      // --fs: a spate.toml or the folder that holds one
  bool json = false;                   // --json
  bool quiet = false;                  // -q
  std::vector<std::string> overrides;  // --set KEY=VALUE

  bool names_dead_servers = true;  // print them on standard error when the file system is opened; false for commands
                                   // that report them themselves

  /// Called when a server has kept a call waiting for some seconds, and when that is over. Null: nobody is told.
  std::function<void(bool waits)> on_wait;

  /// The spate.toml to use: --fs, else SPATE_FS, else the file system that `spate up` started last, else
  /// /etc/spate/spate.toml.
  Result<std::string> config_file() const;
  /// Values from outside of the file: the environment, then --set.
  Result<std::vector<config::Override>> config_overrides() const;
  /// The settings for opening a client of this spate.toml. Also sets the log level that a command wants.
  Result<assembly::ClientSettings> client_settings(std::string config_file) const;
  /// kUnreachable if `spate up` started the file system and `spate down` has stopped it: waiting would be useless.
  Result<void> check_running() const;
  /// The file system, opened at the first use; the pointer is valid until the context is destroyed. Opening reads the
  /// configuration and the key and makes no session yet; after a failure the next call tries again. `with_server_key`:
  /// as an administrator, for fsck; it has an effect in the call that opens the file system only.
  Result<assembly::ClientProcess*> file_system(bool with_server_key = false);

  /// Prints "spate: message" on standard error and returns kExitFailed. `what` names the object ("spate:/a"). With
  /// --json the failure is also part of the output (docs/json.md).
  int fail(const Error& error, std::string_view what = {});
  int fail(std::string_view message);
  /// The same for an error of a server. Most errors already name it. The command puts the failure into its result
  /// itself.
  int fail_of(ServerId server, const Error& error);
  /// The same for a failure that the command puts into its result itself: only prints it on standard error.
  int tell(std::string_view message) const;
  /// Prints the message with a hint at --help; returns kExitUsage.
  int usage(std::string_view message);
  /// The same for a path that does not begin with spate:, with the path that was probably meant.
  int usage_not_remote(std::string_view path);

  /// Prints the result of a command with --json, with all failures so far: a list gets a row for each, an object a
  /// member "failures". Call it once.
  void print_json(nlohmann::json value);
  /// Prints the failures if --json was given and no result was printed. Called at the end.
  void print_failures();

  bool stdout_is_terminal() const;
  bool stderr_is_terminal() const;

 private:
  struct Failure {
    std::string path;  // empty: the failure concerns no particular path
    std::string code;  // the name of an Errc; empty: none
    std::string message;
  };
  static nlohmann::json to_json(const Failure& failure);
  void tell_wait(const rpc::ServerWait& wait) const;

  std::unique_ptr<assembly::ClientProcess> process_;
  std::vector<Failure> failures_;
  bool printed_result_ = false;
};

/// The machine's file system, for users who name none.
inline constexpr const char* kMachineConfig = "/etc/spate/spate.toml";

/// The error for a spate.toml that does not exist. Its text says how to make one.
Error no_file_system(const std::string& config_file);

/// Whether the path names something in the file system: "spate:/a/b". Anything else is a local path.
bool is_remote(std::string_view path);
/// "/a/b" for "spate:/a/b"; "spate:" alone is the root. `path` must be remote.
std::string remote_path(std::string_view path);
/// The parts of a path, as dirname and basename do ("/a/b/" -> "/a", "b").
std::pair<std::string, std::string> split_path(std::string_view path);
std::string join_path(std::string_view folder, std::string_view name);

/// The folder of --dir, else that of the file system in use. Absolute.
Result<std::string> folder_of(const Context& context, const std::string& given);

}  // namespace spate::tools
