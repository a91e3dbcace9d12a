// SPDX-License-Identifier: Apache-2.0
#include "tools/path_arguments.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>

#include "tools/command.h"
#include "tools/mounts.h"
#include "tools/name_space.h"

namespace spate::tools {
namespace {

/// Whether the error concerns only this path; any other error ends the expansion.
bool is_about_the_path(Errc code) {
  constexpr Errc kThese[] = {Errc::kNotFound,    Errc::kNotDirectory, Errc::kPermissionDenied, Errc::kSymlinkLoop,
                             Errc::kNameTooLong, Errc::kStaleHandle,  Errc::kInvalidArgument};
  return std::find(std::begin(kThese), std::end(kThese), code) != std::end(kThese);
}

bool holds_pattern(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '*' || text[i] == '?' || text[i] == '[') {
      return true;
    }
  }
  return false;
}

std::string without_backslashes(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    plain += text[i];
  }
  return plain;
}

std::vector<std::string> components_of(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    if (slash > 0) parts.emplace_back(path.substr(0, slash));
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return parts;
}

Result<bool> exists(assembly::ClientProcess& process, const std::string& path) {
  const auto found = process.run([&](client::Client& c) { return c.lookup(client::path_from_root(path, false)); });
  if (!found && !is_about_the_path(found.code())) return found.error();
  return found.has_value();
}

/// The matching names in `folder`, as paths. Nothing if it is not a directory, or may not be read.
Result<std::vector<std::string>> matches_in(assembly::ClientProcess& process, const std::string& folder,
                                            const std::string& pattern) {
  std::vector<std::string> found;
  auto object = process.run([&](client::Client& c) { return c.lookup(client::path_from_root(folder)); });
  if (!object && !is_about_the_path(object.code())) return std::move(object).error();
  if (!object || object->attributes.type != FileType::kDirectory) return found;
  auto entries = list_directory(process, object->attributes.handle);
  if (!entries && !is_about_the_path(entries.code())) return std::move(entries).error();
  if (!entries) return found;
  for (const Listed& entry : *entries) {
    if (::fnmatch(pattern.c_str(), entry.name.c_str(), FNM_PERIOD) == 0) found.push_back(join_path(folder, entry.name));
  }
  return found;
}

/// Paths from the root that match `pattern`, one component after the other.
Result<std::vector<std::string>> matches_of(assembly::ClientProcess& process, const std::string& pattern) {
  std::vector<std::string> found = {"/"};
  bool certain = true;  // whether each of `found` is known to exist
  for (const std::string& part : components_of(pattern)) {
    std::vector<std::string> next;
    for (const std::string& folder : found) {
      if (!holds_pattern(part)) {
        next.push_back(join_path(folder, without_backslashes(part)));
        continue;
      }
      SPATE_TRY(const auto below, matches_in(process, folder, part));
      next.insert(next.end(), below.begin(), below.end());
    }
    certain = holds_pattern(part);
    found = std::move(next);
  }
  if (certain) return found;
  std::vector<std::string> there;
  for (const std::string& path : found) {
    SPATE_TRY(const bool is_there, exists(process, path));
    if (is_there) there.push_back(path);
  }
  return there;
}

}  // namespace

Result<std::vector<std::string>> expand_patterns(assembly::ClientProcess& process,
                                                 const std::vector<std::string>& words) {
  std::vector<std::string> paths;
  for (const std::string& word : words) {
    if (!is_remote(word) || !holds_pattern(word)) {
      paths.push_back(word);
      continue;
    }
    const std::string pattern = remote_path(word);
    SPATE_TRY(const bool is_a_name, exists(process, pattern));
    if (is_a_name) {
      paths.push_back(word);
      continue;
    }
    SPATE_TRY(const auto found, matches_of(process, pattern));
    for (const std::string& path : found) paths.push_back("spate:" + path);
    if (found.empty()) paths.push_back(word);
  }
  return paths;
}

Result<std::string> mounted_path(Context& context, const std::string& path) {
  std::error_code error;
  const std::string whole = std::filesystem::canonical(path, error).string();
  const MountPoint mount = error ? MountPoint() : mount_of(whole);
  if (mount.type != "fuse.spate") return path;
  if (context.fs.empty() && !is_trusted(mount)) {
    return Error::told(Errc::kNotPermitted, path + " is in a mount of user " + std::to_string(mount.user) +
                                                ", whose word is not taken for its file system: name that by --fs");
  }
  if (context.fs.empty()) context.fs = mount.source;
  return "spate:/" + whole.substr(std::min(mount.directory.size() + 1, whole.size()));
}

bool take_remote_paths(Context& context, assembly::ClientProcess& process, std::vector<std::string>& paths, int& code) {
  for (const std::string& path : paths) {
    if (is_remote(path)) continue;
    code = context.usage_not_remote(path);
    return false;
  }
  auto expanded = expand_patterns(process, paths);
  if (!expanded) {
    code = context.fail(expanded.error());
    return false;
  }
  paths = *std::move(expanded);
  return true;
}

int for_each_remote_path(Context& context, std::vector<std::string> paths,
                         const std::function<Result<void>(assembly::ClientProcess& process, const std::string& name,
                                                          const std::string& path)>& act) {
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  int code = kExitOk;
  if (!take_remote_paths(context, **process, paths, code)) return code;
  for (const std::string& name : paths) {
    const auto done = act(**process, name, remote_path(name));
    if (!done) code = context.fail(done.error(), name);
  }
  return code;
}

}  // namespace spate::tools
