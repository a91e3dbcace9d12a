// SPDX-License-Identifier: Apache-2.0
#include "tools/port_holder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace spate::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kListening = "0A";  // the column "st" of /proc/net/tcp

/// Adds the inodes of sockets that listen on the port, from one of the kernel's tables (proc(5), "/proc/net/tcp").
void add_listeners(const char* table, std::uint16_t port, std::set<std::string>& inodes) {
  std::ifstream in(table);
  std::string line;
  std::getline(in, line);  // headings
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
    fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >> inode;
    const std::size_t colon = local.rfind(':');
    if (state != kListening || colon == std::string::npos) continue;
    if (std::stoul(local.substr(colon + 1), nullptr, 16) == port) inodes.insert(inode);
  }
}

bool holds_one(const fs::path& process, const std::set<std::string>& inodes) {
  std::error_code error;
  for (fs::directory_iterator at(process / "fd", error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    const std::string target = fs::read_symlink(at->path(), gone).string();
    if (target.starts_with("socket:[") && inodes.contains(target.substr(8, target.size() - 9))) return true;
  }
  return false;
}

bool is_number(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string port_holder(std::uint16_t port) {
  std::set<std::string> inodes;
  add_listeners("/proc/net/tcp", port, inodes);
  add_listeners("/proc/net/tcp6", port, inodes);
  if (inodes.empty()) return {};
  std::error_code error;
  for (fs::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    const std::string pid = at->path().filename().string();
    if (!is_number(pid) || !holds_one(at->path(), inodes)) continue;
    std::string name;
    std::getline(std::ifstream(at->path() / "comm") >> std::ws, name);
    return name + " (pid " + pid + ")";
  }
  return "a program of another user";
}

}  // namespace spate::tools
