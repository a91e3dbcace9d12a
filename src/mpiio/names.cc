// SPDX-License-Identifier: Apache-2.0
#include "mpiio/names.h"

#include <algorithm>
#include <vector>

namespace spate::mpiio {
namespace {

/// An absolute path without empty, "." and ".." components.
std::string straighten(std::string_view path) {
  std::vector<std::string_view> names;
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, slash);
    path.remove_prefix(std::min(slash + 1, path.size()));
    if (name.empty() || name == ".") continue;
    if (name != "..") {
      names.push_back(name);
    } else if (!names.empty()) {
      names.pop_back();
    }
  }
  std::string out;
  for (const std::string_view name : names) out.append("/").append(name);
  return out.empty() ? "/" : out;
}

/// "ufs:", as ROMIO has it: letters before the first ':', and that before any '/'.
bool has_scheme(std::string_view name) {
  const std::size_t end = name.find_first_of(":/");
  return end != std::string_view::npos && end > 1 && name[end] == ':';
}

}  // namespace

std::optional<Name> resolve(std::string_view name, std::string_view prefixes, std::string_view directory) {
  constexpr std::string_view kScheme = "spate:";
  if (name.starts_with(kScheme)) return Name{{}, straighten(name.substr(kScheme.size()))};
  if (name.empty() || has_scheme(name)) return std::nullopt;
  std::string whole(name);
  if (name.front() != '/') whole = std::string(directory) + "/" + whole;
  whole = straighten(whole);
  while (!prefixes.empty()) {
    const std::size_t colon = std::min(prefixes.find(':'), prefixes.size());
    const std::string_view one = prefixes.substr(0, colon);
    prefixes.remove_prefix(std::min(colon + 1, prefixes.size()));
    const std::size_t equals = std::min(one.find('='), one.size());
    const std::string_view prefix = one.substr(0, equals);
    if (prefix.size() < 2 || !whole.starts_with(prefix)) continue;
    if (whole.size() > prefix.size() && whole[prefix.size()] != '/') continue;
    const std::string_view config = equals == one.size() ? "" : one.substr(equals + 1);
    const std::string rest = whole.substr(prefix.size());
    return Name{std::string(config), rest.empty() ? "/" : rest};
  }
  return std::nullopt;
}

}  // namespace spate::mpiio
