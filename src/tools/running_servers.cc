// SPDX-License-Identifier: Apache-2.0
// Finds servers and supervisors of etcd in /proc, whether they have pid files or not.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "tools/etcd_members.h"
#include "tools/server_control.h"

namespace spate::tools {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> command_line_of(const std::string& process) {
  std::ifstream in(process + "/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(in, word, '\0');) words.push_back(word);
  return words;
}

/// The word after `option`; empty: there is none.
std::string value_of(const std::vector<std::string>& words, std::string_view option) {
  const auto at = std::find(words.begin(), words.end(), option);
  return at == words.end() || at + 1 == words.end() ? std::string() : *(at + 1);
}

/// Whether the process is in this mount name space; another one may have other files at the same paths.
bool shares_our_files(const std::string& process) {
  std::error_code error;
  const fs::path theirs = fs::read_symlink(process + "/ns/mnt", error);
  return !error && theirs == fs::read_symlink("/proc/self/ns/mnt", error);
}

bool is_own(const std::string& process) {
  struct stat st{};
  return ::stat(process.c_str(), &st) == 0 && st.st_uid == ::geteuid() && shares_our_files(process);
}

/// The processes of /proc: their folders and pids.
std::vector<std::pair<std::string, int>> processes() {
  std::vector<std::pair<std::string, int>> all;
  std::error_code error;
  fs::directory_iterator at("/proc", error);
  for (const fs::directory_iterator end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    int pid = 0;
    std::from_chars(name.data(), name.data() + name.size(), pid);
    if (pid > 0) all.emplace_back(at->path().string(), pid);
  }
  return all;
}

std::optional<RunningServer> server_at(const std::string& process, int pid) {
  std::error_code error;
  const std::string program = fs::read_symlink(process + "/exe", error).filename().string();
  if (!program.starts_with("spated") || !is_own(process)) return std::nullopt;
  const auto words = command_line_of(process);
  RunningServer found{pid, value_of(words, "--config"), ServerId()};
  const std::string number = value_of(words, "--server");
  std::uint32_t server = 0;
  std::from_chars(number.data(), number.data() + number.size(), server);
  if (server == 0 || !found.config_file.starts_with('/')) return std::nullopt;
  found.config_file = fs::path(found.config_file).lexically_normal().string();
  found.server = ServerId(server);
  return found;
}

}  // namespace

std::vector<RunningServer> running_servers() {
  std::vector<RunningServer> all;
  for (const auto& [process, pid] : processes()) {
    if (auto found = server_at(process, pid)) all.push_back(*std::move(found));
  }
  return all;
}

std::vector<EtcdSupervisor> running_supervisors(const std::string& folder) {
  std::vector<EtcdSupervisor> all;
  for (const auto& [process, pid] : processes()) {
    if (!is_own(process)) continue;
    const auto words = command_line_of(process);
    if (words.size() == 5 && fs::path(words[0]).filename() == "spate" && words[1] == "coord" && words[2] == "run" &&
        words[3] == folder)
      all.push_back({pid, words[4]});
  }
  return all;
}

}  // namespace spate::tools
