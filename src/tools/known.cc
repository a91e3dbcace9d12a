// SPDX-License-Identifier: Apache-2.0
#include "tools/known.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "assembly/locate.h"
#include "tools/server_control.h"

namespace spate::tools {
namespace {

namespace fs = std::filesystem;

/// The list lies beside the file that names the current file system. Empty: this user has no home folder.
fs::path list_file() {
  const fs::path current = assembly::current_file();
  return current.empty() ? fs::path() : current.parent_path() / "file-systems";
}

/// If the path is a link, replaces the link itself.
void write_lines(const fs::path& path, const std::vector<std::string>& lines) {
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  fs::remove(path, ignored);
  std::ofstream out(path);
  for (const std::string& line : lines) out << line << "\n";
}

/// The last file of the list whose servers run; empty: none.
std::string last_running(const std::vector<std::string>& files) {
  const std::vector<RunningServer> servers = running_servers();
  const auto runs = [&](const std::string& file) {
    return std::ranges::any_of(servers, [&](const RunningServer& server) { return server.config_file == file; });
  };
  const auto found = std::find_if(files.rbegin(), files.rend(), runs);
  return found == files.rend() ? std::string() : *found;
}

}  // namespace

std::vector<std::string> known_file_systems() {
  std::ifstream in(list_file());
  std::vector<std::string> all;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('/')) all.push_back(line);
  }
  return all;
}

std::vector<std::string> known_folders() {
  std::vector<std::string> all;
  for (const std::string& file : known_file_systems()) all.push_back(fs::path(file).parent_path().string());
  return all;
}

void remember_file_system(const std::string& config_file) {
  const fs::path current = assembly::current_file();
  if (current.empty()) return;
  write_lines(current, {config_file});
  std::vector<std::string> all = known_file_systems();
  std::erase(all, config_file);
  all.push_back(config_file);  // in the order of their last starts
  write_lines(list_file(), all);
}

std::string forget_file_system(const std::string& config_file) {
  const fs::path current = assembly::current_file();
  if (current.empty()) return {};
  std::vector<std::string> all = known_file_systems();
  std::erase(all, config_file);
  write_lines(list_file(), all);
  std::ifstream in(current);
  std::string last;
  if (!std::getline(in, last) || last != config_file) return {};
  std::error_code ignored;
  fs::remove(current, ignored);
  std::string next = last_running(all);
  if (!next.empty()) write_lines(current, {next});
  return next;
}

}  // namespace spate::tools
