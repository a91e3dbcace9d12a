// SPDX-License-Identifier: Apache-2.0
#include "preload/paths.h"

#include <charconv>
#include <vector>

namespace spate::preload {
namespace {

/// Calls `each` with every component that is neither empty nor ".".
template <typename Each>
void walk(std::string_view path, const Each& each) {
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    const std::string_view name = path.substr(0, slash);
    if (!name.empty() && name != ".") each(name);
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
  }
}

int number_of(std::string_view text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0 ? number : -1;
}

}  // namespace

std::string straighten(std::string_view path) {
  std::vector<std::string_view> names;
  walk(path, [&](std::string_view name) {
    if (name != "..") {
      names.push_back(name);
    } else if (!names.empty()) {
      names.pop_back();
    }
  });
  std::string out;
  for (const std::string_view name : names) out.append("/").append(name);
  return out.empty() ? "/" : out;
}

bool is_straight(std::string_view path) {
  if (path.empty()) return false;
  for (std::size_t at = 0; at != std::string_view::npos; at = path.find('/', at + 1)) {
    const std::size_t next = at + 1;
    if (path[at] != '/' || next == path.size() || path[next] == '/' || path[next] == '.') return false;
  }
  return true;
}

std::size_t depth_of(std::string_view path) {
  std::size_t depth = 0;
  walk(path, [&](std::string_view) { ++depth; });
  return depth;
}

bool climbs_out(std::string_view path, std::size_t depth) {
  bool out = false;
  walk(path, [&](std::string_view name) {
    if (name != "..") {
      ++depth;
    } else if (depth == 0) {
      out = true;
    } else {
      --depth;
    }
  });
  return out;
}

bool is_below(std::string_view path, std::string_view prefix) {
  return path.starts_with(prefix) && (path.size() == prefix.size() || path[prefix.size()] == '/');
}

int named_descriptor(std::string_view path, long own_pid) {
  if (path == "/dev/stdin") return 0;
  if (path == "/dev/stdout") return 1;
  if (path == "/dev/stderr") return 2;
  for (const std::string& folder :
       {std::string("/dev/fd/"), std::string("/proc/self/fd/"), "/proc/" + std::to_string(own_pid) + "/fd/"}) {
    if (path.starts_with(folder)) return number_of(path.substr(folder.size()));
  }
  return -1;
}

}  // namespace spate::preload
