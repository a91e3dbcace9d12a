// SPDX-License-Identifier: Apache-2.0
#include "tools/context.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "assembly/locate.h"
#include "config/load.h"
#include "log/log.h"
#include "tools/deployment.h"
#include "tools/output.h"
#include "tools/probe.h"
#include "tools/server_control.h"
#include "tools/text.h"

namespace spate::tools {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool is_missing(const std::string& path) { return ::access(path.c_str(), F_OK) != 0 && errno == ENOENT; }

/// If `path` is a folder, the spate.toml in it. `origin`: the option or variable with the path, for the error message.
Result<std::string> as_config_file(const std::string& path, std::string_view origin) {
  struct stat st{};
  if (::stat(path.c_str(), &st) != 0) {
    const Error why = errno_error(errno, path);
    return Error::told(
        why.code(), std::string(origin) + " names " + path + ", which is no spate.toml and no folder that holds one");
  }
  if (!S_ISDIR(st.st_mode)) return path;
  std::string file = path.ends_with('/') ? path + "spate.toml" : path + "/spate.toml";
  if (is_missing(file)) return no_file_system(file);
  return file;
}

/// [log] is for servers. The command itself reports what went wrong. Problems that it overcame are only reported to
/// users who ask for them.
std::string log_level(const std::vector<config::Override>& overrides) {
  std::string level = "error";
  for (const config::Override& one : overrides) {
    if (one.key == "log.level") level = one.value;
  }
  return level;
}

/// Whether the server may be running. One that the service manager or a person has started has no pid file.
bool may_serve(const config::ServerConfig& server) { return !surely_down(server.urls); }

/// See Context::check_running(). (A crashed server leaves its pid file, and may come back.)
Result<void> is_running(const std::string& config_file, const std::vector<config::Override>& overrides) {
  const std::filesystem::path folder = std::filesystem::path(config_file).parent_path();
  std::error_code error;
  std::filesystem::directory_iterator at(folder / "run", error);
  bool deployment = false;
  for (const std::filesystem::directory_iterator end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".pid") return {};
    deployment = deployment || at->path().filename() == "lock";
  }
  if (error || !deployment || is_joined(folder.string())) return {};
  const auto loaded = config::load_file(config_file, overrides);
  if (!loaded || std::ranges::any_of(loaded->config.servers, may_serve))
    return {};  // opening the file reports the error
  return Error::told(Errc::kUnreachable, "the file system in " + folder.string() + " is not running; `spate up --dir " +
                                             shell_word(folder.string()) + "` starts it");
}

/// Whether its pid file still exists, but nobody answers at its address.
bool has_died(const std::string& folder, const config::ServerConfig& server) {
  return look_at_server(folder, server.id).stale && !may_serve(server);
}

/// Names dead servers at once, since every command needs a meta server and waits for it for client.deadline. (A command
/// itself names other servers that it cannot reach.)
void name_dead_servers(const std::string& config_file, const config::FileSystemConfig& config) {
  const std::string folder = std::filesystem::path(config_file).parent_path().string();
  for (const config::ServerConfig& server : config.servers) {
    if (!server.roles.meta || !has_died(folder, server)) continue;
    std::fprintf(stderr, "spate: server %u (meta) has died; `spate up --dir %s` starts it again\n",
                 unsigned{server.id.value}, shell_word(folder).c_str());
  }
}

}  // namespace

Error no_file_system(const std::string& config_file) {
  const std::string folder = std::filesystem::path(config_file).parent_path().string();
  return Error::told(Errc::kNotFound, "there is no " + config_file + "; `spate up --dir " + shell_word(folder) +
                                          "` makes a file system there");
}

Result<std::string> Context::config_file() const {
  if (!fs.empty()) return as_config_file(fs, "--fs");
  const std::string from_environment = environment("SPATE_FS");
  if (!from_environment.empty()) return as_config_file(from_environment, "SPATE_FS");
  std::ifstream in(assembly::current_file());
  std::string path;
  if (std::getline(in, path) && !path.empty()) {
    if (is_missing(path)) return no_file_system(path);
    return path;
  }
  if (!is_missing(kMachineConfig)) return std::string(kMachineConfig);
  return Error::told(Errc::kNotFound,
                     "no file system is known here; start one with `spate up`, or name one with --fs FILE, "
                     "SPATE_FS=FILE or " +
                         std::string(kMachineConfig));
}

Result<std::vector<config::Override>> Context::config_overrides() const {
  SPATE_TRY(auto values, config::overrides_from_environment(assembly::whole_environment()));
  for (const std::string& argument : overrides) {
    SPATE_TRY(auto one, config::override_from_argument(argument));
    values.push_back(std::move(one));
  }
  return values;
}

Result<assembly::ClientSettings> Context::client_settings(std::string file) const {
  assembly::ClientSettings settings;
  settings.config_file = std::move(file);
  SPATE_TRY(settings.overrides, config_overrides());
  SPATE_TRY(std::ignore, log::set_levels(log_level(settings.overrides)));
  settings.program = "spate";
  settings.credential = assembly::own_credential();
  settings.background_thread = false;  // a command is always inside a call
  settings.on_wait = [this](const rpc::ServerWait& wait) {
    const bool begun = wait.state == rpc::ServerWait::State::kBegun;
    if (!quiet && begun) tell_wait(wait);
    if (on_wait && wait.state != rpc::ServerWait::State::kLasts) on_wait(begun);
  };
  return settings;
}

Result<void> Context::check_running() const {
  SPATE_TRY(const std::string file, config_file());
  SPATE_TRY(const auto values, config_overrides());
  return is_running(file, values);
}

Result<assembly::ClientProcess*> Context::file_system(bool with_server_key) {
  if (process_ != nullptr) return process_.get();
  SPATE_TRY(std::ignore, check_running());
  SPATE_TRY(std::string file, config_file());
  SPATE_TRY(assembly::ClientSettings settings, client_settings(std::move(file)));
  settings.server_key = with_server_key;
  const std::string config_path = settings.config_file;
  SPATE_TRY(process_, assembly::ClientProcess::open(settings));
  if (names_dead_servers && !quiet) name_dead_servers(config_path, process_->config());
  return process_.get();
}

/// There may be a progress line on the terminal.
void Context::tell_wait(const rpc::ServerWait& wait) const {
  std::fprintf(stderr, "%sspate: has waited for %s; Ctrl-C gives it up\n", stderr_is_terminal() ? "\r\033[K" : "",
               printable_lines(rpc::text_of(wait)).c_str());
}

int Context::fail(const Error& error, std::string_view what) {
  failures_.push_back({std::string(what), std::string(name(error.code())), error.message()});
  return tell(what.empty() ? error.message() : std::string(what) + ": " + error.message());
}

int Context::fail(std::string_view message) {
  failures_.push_back({"", "", std::string(message)});
  return tell(message);
}

int Context::tell(std::string_view message) const {
  std::fprintf(stderr, "spate: %s\n", printable_lines(message).c_str());  // names in it may come from other users
  return kExitFailed;
}

nlohmann::json Context::to_json(const Failure& failure) {
  nlohmann::json row = {{"error", printable_lines(failure.message)}};
  if (!failure.code.empty()) row["code"] = failure.code;
  if (!failure.path.empty()) row["path"] = printable(failure.path);
  return row;
}

void Context::print_json(nlohmann::json value) {
  for (const Failure& failure : failures_) {
    if (value.is_array()) {
      value.push_back(to_json(failure));
    } else {
      value["failures"].push_back(to_json(failure));
    }
  }
  printed_result_ = true;
  tools::print_json(value);
}

void Context::print_failures() {
  if (!json || printed_result_ || failures_.empty()) return;
  nlohmann::json value = to_json(failures_.front());
  for (std::size_t i = 1; i < failures_.size(); ++i) value["failures"].push_back(to_json(failures_[i]));
  tools::print_json(value);
}

int Context::fail_of(ServerId server, const Error& error) {
  const std::string name = "server " + std::to_string(server.value);
  const std::string text = error.message();
  return tell(text.starts_with(name + " ") ? text : name + ": " + text);
}

int Context::usage(std::string_view message) {
  fail(message);
  std::fprintf(stderr, "Try `spate --help`.\n");
  return kExitUsage;
}

int Context::usage_not_remote(std::string_view path) {
  std::string meant(path);
  while (meant.starts_with("./")) meant.erase(0, 2);
  meant = "spate:" + std::string(meant.starts_with('/') ? "" : "/") + meant;
  return usage(std::string(path) + ": paths in the file system begin with spate:, as in `" + shell_word(meant) + "`");
}

bool Context::stdout_is_terminal() const { return ::isatty(STDOUT_FILENO) == 1; }
bool Context::stderr_is_terminal() const { return ::isatty(STDERR_FILENO) == 1; }

bool is_remote(std::string_view path) { return path.starts_with("spate:"); }

std::string remote_path(std::string_view path) {
  path.remove_prefix(std::string_view("spate:").size());
  if (path.empty()) return "/";
  return std::string(path);
}

std::pair<std::string, std::string> split_path(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return {".", std::string(path)};
  std::string_view folder = path.substr(0, slash);
  while (folder.size() > 1 && folder.ends_with('/')) folder.remove_suffix(1);
  return {folder.empty() ? "/" : std::string(folder), std::string(path.substr(slash + 1))};
}

std::string join_path(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.empty() && !path.ends_with('/')) path += '/';
  return path.append(name);
}

Result<std::string> folder_of(const Context& context, const std::string& given) {
  std::error_code ignored;
  if (!given.empty()) return std::filesystem::absolute(given, ignored).lexically_normal().string();
  SPATE_TRY(const std::string file, context.config_file());
  return std::filesystem::path(file).parent_path().string();
}

}  // namespace spate::tools
