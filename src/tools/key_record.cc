// SPDX-License-Identifier: Apache-2.0
#include "tools/key_record.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "base/printable.h"
#include "base/unique_fd.h"
#include "base/units.h"

namespace spate::tools {
namespace {

constexpr std::string_view kSpace = "\\x20";

/// The path as one word of the record.
std::string as_word(const std::string& path) {
  std::string word;
  for (const char c : printable(path)) {
    if (c == ' ') {
      word += kSpace;
    } else {
      word += c;
    }
  }
  return word;
}

}  // namespace

std::string path_from_word(std::string word) {
  for (std::size_t at = 0; (at = word.find(kSpace, at)) != std::string::npos; ++at)
    word.replace(at, kSpace.size(), " ");
  return word;
}

std::string in_words(const UserKey& key, const std::string& path) {
  const std::string confined =
      key.directory ? fmt::format(" directory={} path={}", key.directory.value, as_word(path)) : std::string();
  return fmt::format("uid={} gid={} groups={} read_only={}{} until={}", key.user.uid, key.user.gid,
                     key.user.groups.empty() ? "none" : fmt::format("{}", fmt::join(key.user.groups, ",")),
                     key.read_only ? "yes" : "no", confined, key.until.ns == 0 ? "never" : format_time(key.until));
}

Result<void> record_key(const std::string& client_key_file, const UserKey& key, const std::string& about) {
  const std::string path = client_key_file + ".issued";
  const std::string line =
      fmt::format("{} issued id={} {} by={}\n", format_time(SystemClock().wall()), text_of(key.id), about, ::getuid());
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  const bool written = fd && ::write(fd.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (written && ::fsync(fd.get()) == 0) return {};
  return errno_error(errno, "no key was issued, since its record cannot be written to " + path);
}

std::vector<IssuedKey> recorded_keys(const std::string& client_key_file) {
  constexpr std::string_view kId = " issued id=";
  constexpr std::string_view kUntil = " until=";
  constexpr std::size_t kDigits = 16;
  std::vector<IssuedKey> keys;
  std::ifstream lines(client_key_file + ".issued");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find(kId);
    const std::size_t until = line.find(kUntil);
    const std::size_t by = line.rfind(" by=");
    if (at == std::string::npos || by == std::string::npos || until > by) continue;
    const std::size_t about = at + kId.size() + kDigits + 1;
    const auto id = key_id_from(line.substr(at + kId.size(), kDigits));
    if (!id || about > until) continue;
    const auto end = parse_time(std::string_view(line).substr(until + kUntil.size(), by - until - kUntil.size()));
    keys.push_back({*id, line.substr(about, by - about), end ? *end : WallTime{}});
  }
  return keys;
}

std::vector<WallTime> recorded_ends(const std::string& client_key_file, const std::vector<KeyId>& ids) {
  std::vector<WallTime> ends(ids.size());
  for (const IssuedKey& key : recorded_keys(client_key_file)) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == key.id && key.until.ns != 0) ends[i] = key.until;
    }
  }
  return ends;
}

}  // namespace spate::tools
