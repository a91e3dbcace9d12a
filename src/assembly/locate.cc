// SPDX-License-Identifier: Apache-2.0
#include "assembly/locate.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace spate::assembly {
namespace {

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string as_config_file(const std::string& path) {
  struct stat st{};
  return ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode) ? path + "/spate.toml" : path;
}

/// Whether others own the folder, or may create entries in it. A folder that does not exist belongs to nobody else.
bool is_others(const std::string& folder) {
  struct stat st{};
  return ::stat(folder.c_str(), &st) == 0 && (st.st_uid != ::geteuid() || (st.st_mode & S_IWOTH) != 0);
}

}  // namespace

std::vector<std::string> whole_environment() {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  return all;
}

std::string own_home() {
  const std::string home = environment("HOME");
  return home.empty() || is_others(home) ? std::string() : home;
}

std::string own_folder(const char* variable, const std::string& below) {
  const std::string named = environment(variable);
  if (named.starts_with('/')) return is_others(named) ? std::string() : named;
  const std::string home = own_home();
  return home.empty() ? std::string() : home + "/" + below;
}

std::string current_file() {
  const std::string state = own_folder("XDG_STATE_HOME", ".local/state");
  return state.empty() ? std::string() : state + "/spate/current";
}

Result<std::string> locate_config(const std::string& given) {
  if (!given.empty()) return as_config_file(given);
  const std::string from_environment = environment("SPATE_FS");
  if (!from_environment.empty()) return as_config_file(from_environment);
  std::ifstream in(current_file());
  std::string path;
  if (std::getline(in, path) && !path.empty()) return path;
  return Error::told(
      Errc::kNotFound,
      "no file system is known here; start one with `spate up`, or name one with --fs FILE or SPATE_FS=FILE");
}

}  // namespace spate::assembly
