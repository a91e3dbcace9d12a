// SPDX-License-Identifier: Apache-2.0
#include "tools/known.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <tuple>

#include "assembly/locate.h"
#include "base/unique_fd.h"
#include "tools/server_control.h"
#include "tools/text_file.h"

namespace spate::tools {
namespace {

namespace fs = std::filesystem;

/// The list lies beside the file that names the current file system. Empty: this user has no home folder.
fs::path list_file() {
  const fs::path current = assembly::current_file();
  return current.empty() ? fs::path() : current.parent_path() / "file-systems";
}

/// Holds the list's lock while it lives, so that commands that run at the same time take turns. The lock has a file of
/// its own that only this user can open. A user who may read a file or a folder can hold a lock on it for ever. Without
/// a lock (the file cannot be made) nothing can be written either.
class ListLock {
 public:
  explicit ListLock(const fs::path& folder)
      : file_(::open((folder / "file-systems.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) {
    while (file_ && ::flock(file_.get(), LOCK_EX) != 0 && errno == EINTR) {
    }
  }

 private:
  UniqueFd file_;
};

/// A command that reads meanwhile finds the old lines or the new ones. A failure is no error of the command: the user
/// can still name the file system.
void write_lines(const fs::path& path, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  std::ignore = replace_file(path.string(), text);
}

std::string first_line(const fs::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
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
  std::error_code ignored;
  fs::create_directories(current.parent_path(), ignored);
  const ListLock lock(current.parent_path());
  std::vector<std::string> all = known_file_systems();
  if (!all.empty() && all.back() == config_file && first_line(current) == config_file) return;
  write_lines(current, {config_file});
  std::erase(all, config_file);
  all.push_back(config_file);  // in the order of their last starts
  write_lines(list_file(), all);
}

std::string forget_file_system(const std::string& config_file) {
  const fs::path current = assembly::current_file();
  if (current.empty()) return {};
  const ListLock lock(current.parent_path());
  std::vector<std::string> all = known_file_systems();
  if (std::erase(all, config_file) > 0) write_lines(list_file(), all);
  if (first_line(current) != config_file) return {};
  const std::string next = last_running(all);
  if (!next.empty()) {
    write_lines(current, {next});
  } else {
    std::error_code ignored;
    fs::remove(current, ignored);
  }
  return next;
}

}  // namespace spate::tools
