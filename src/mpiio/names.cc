// SPDX-License-Identifier: Apache-2.0
#include "mpiio/names.h"

#include <algorithm>
#include <charconv>
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

/// Takes the next field from a line of mountinfo, in which blanks are octal escapes.
std::string field(std::string_view& line) {
  const std::size_t blank = std::min(line.find(' '), line.size());
  const std::string_view text = line.substr(0, blank);
  line.remove_prefix(std::min(blank + 1, line.size()));
  const auto digit = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7'; };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && digit(i + 1) && digit(i + 2) && digit(i + 3)) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool is_below(std::string_view path, std::string_view folder) {
  if (folder == "/") return true;
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

/// The value of an option, which is empty for an option without one. Nothing: the option is not there.
std::optional<std::string_view> option_of(std::string_view options, std::string_view name) {
  while (!options.empty()) {
    const std::size_t comma = std::min(options.find(','), options.size());
    const std::string_view one = options.substr(0, comma);
    options.remove_prefix(std::min(comma + 1, options.size()));
    if (one == name) return std::string_view();
    if (one.starts_with(name) && one[name.size()] == '=') return one.substr(name.size() + 1);
  }
  return std::nullopt;
}

/// The user who has mounted, as the kernel shows it for each FUSE mount. Nothing: there is no such number.
std::optional<uid_t> user_of(std::string_view options) {
  const std::string_view text = option_of(options, "user_id").value_or(std::string_view());
  const char* const end = text.data() + text.size();
  uid_t user = 0;
  const auto read = std::from_chars(text.data(), end, user);
  return read.ec == std::errc() && read.ptr == end ? std::optional(user) : std::nullopt;
}

struct Mount {
  std::string root;   // the part of the file system that is mounted
  std::string point;  // the mount point
  std::string options;
  std::string type;
  std::string source;
};

/// proc(5): number, parent, device, root, point, options, any number of further fields, "-", type, source, options.
Mount parse_mount(std::string_view line) {
  Mount mount;
  for (int i = 0; i < 3; ++i) field(line);
  mount.root = field(line);
  mount.point = field(line);
  mount.options = field(line);
  while (!line.empty() && field(line) != "-") continue;
  mount.type = field(line);
  mount.source = field(line);
  mount.options += "," + field(line);
  return mount;
}

}  // namespace

bool has_scheme(std::string_view name) {
  const std::size_t end = name.find_first_of(":/");
  return end != std::string_view::npos && end > 1 && name[end] == ':';
}

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

std::optional<Name> resolve_on_mount(std::string_view path, std::string_view mountinfo, uid_t user) {
  Mount found;
  while (!mountinfo.empty()) {
    const std::size_t end = std::min(mountinfo.find('\n'), mountinfo.size());
    Mount mount = parse_mount(mountinfo.substr(0, end));
    mountinfo.remove_prefix(std::min(end + 1, mountinfo.size()));
    // A later entry at the same place hides an earlier one.
    if (!mount.point.empty() && is_below(path, mount.point) && mount.point.size() >= found.point.size())
      found = std::move(mount);
  }
  if (found.type != "fuse.spate" || !found.source.starts_with('/') || option_of(found.options, "ro"))
    return std::nullopt;
  // The source is read as a configuration, which names keys, servers and a log.
  const auto mounted_by = user_of(found.options);
  if (!mounted_by || (*mounted_by != 0 && *mounted_by != user)) return std::nullopt;
  const std::string_view rest = found.point == "/" ? path : path.substr(found.point.size());
  return Name{found.source, straighten(found.root + "/" + std::string(rest))};
}

}  // namespace spate::mpiio
