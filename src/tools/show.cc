// SPDX-License-Identifier: Apache-2.0
// The form of attributes, for people and as JSON.
#include <fmt/core.h>
#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>

#include "dist/registry.h"
#include "tools/name_space.h"
#include "tools/paged_directory.h"

namespace spate::tools {
namespace {

char type_letter(FileType type) {
  switch (type) {
    case FileType::kDirectory: return 'd';
    case FileType::kSymlink: return 'l';
    case FileType::kFifo: return 'p';
    case FileType::kSocket: return 's';
    case FileType::kCharDevice: return 'c';
    case FileType::kBlockDevice: return 'b';
    default: return '-';
  }
}

}  // namespace

std::string_view type_name(FileType type) {
  switch (type) {
    case FileType::kRegular: return "file";
    case FileType::kDirectory: return "directory";
    case FileType::kSymlink: return "symlink";
    case FileType::kFifo: return "fifo";
    case FileType::kSocket: return "socket";
    case FileType::kCharDevice: return "character device";
    case FileType::kBlockDevice: return "block device";
  }
  return "unknown";
}

std::string mode_text(FileType type, std::uint32_t mode) {
  std::string text(1, type_letter(type));
  for (int shift = 6; shift >= 0; shift -= 3) {
    const std::uint32_t bits = mode >> static_cast<unsigned>(shift) & 7U;
    text += (bits & 4U) != 0 ? 'r' : '-';
    text += (bits & 2U) != 0 ? 'w' : '-';
    text += (bits & 1U) != 0 ? 'x' : '-';
  }
  if ((mode & 04000U) != 0) text[3] = text[3] == 'x' ? 's' : 'S';
  if ((mode & 02000U) != 0) text[6] = text[6] == 'x' ? 's' : 'S';
  if ((mode & 01000U) != 0) text[9] = text[9] == 'x' ? 't' : 'T';
  return text;
}

std::string time_text(WallTime time, const std::string& style) {
  constexpr std::int64_t kNsPerSecond = 1'000'000'000;
  const std::int64_t nanoseconds = (time.ns % kNsPerSecond + kNsPerSecond) % kNsPerSecond;
  const auto seconds = static_cast<std::time_t>((time.ns - nanoseconds) / kNsPerSecond);
  std::string format = "%Y-%m-%d %H:%M";
  if (style == "iso") format = "%Y-%m-%d %H:%M:%S %z";
  if (style == "full-iso") format = fmt::format("%Y-%m-%d %H:%M:%S.{:09} %z", nanoseconds);
  if (style.starts_with('+')) format = style.substr(1);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  std::array<char, 256> text{};
  const std::size_t n = std::strftime(text.data(), text.size(), format.c_str(), &parts);
  return {text.data(), n};
}

std::string check_time_style(const std::string& style) {
  if (style == "long-iso" || style == "iso" || style == "full-iso" || style.starts_with('+')) return {};
  return "--time-style is long-iso, iso, full-iso or +FORMAT, not \"" + style + "\"";
}

Argument time_style_option(std::string* target, const std::string& usual) {
  Argument option{"--time-style", "how times are shown: long-iso, iso, full-iso or +FORMAT of date(1) (" + usual + ")",
                  target};
  option.choices = {"long-iso", "iso", "full-iso"};
  return option;
}

std::string user_name(std::uint32_t uid) {
  static std::map<std::uint32_t, std::string> known;  // only one thread uses it; a look-up reads files each time
  const auto [it, fresh] = known.try_emplace(uid);
  if (fresh) {
    const passwd* entry = ::getpwuid(uid);
    it->second = entry == nullptr ? std::to_string(uid) : entry->pw_name;
  }
  return it->second;
}

std::string group_name(std::uint32_t gid) {
  static std::map<std::uint32_t, std::string> known;
  const auto [it, fresh] = known.try_emplace(gid);
  if (fresh) {
    const struct ::group* entry = ::getgrgid(gid);
    it->second = entry == nullptr ? std::to_string(gid) : entry->gr_name;
  }
  return it->second;
}

nlohmann::json to_json(const Attributes& a) {
  return {{"handle", a.handle.value},
          {"type", type_name(a.type)},
          {"mode", fmt::format("{:04o}", a.mode)},
          {"uid", a.uid},
          {"gid", a.gid},
          {"links", a.link_count},
          {"size", a.size},
          {"allocated", a.allocated_bytes},
          {"atime_ns", a.atime.ns},
          {"mtime_ns", a.mtime.ns},
          {"ctime_ns", a.ctime.ns},
          {"btime_ns", a.btime.ns},
          {"version", a.version}};
}

nlohmann::json to_json(const Layout& layout) {
  nlohmann::json slots = nlohmann::json::array();
  for (const Slot& slot : layout.slots) {
    nlohmann::json targets = nlohmann::json::array();
    for (const TargetId target : slot.targets) targets.push_back(target.value);
    slots.push_back(std::move(targets));
  }
  return {{"distribution", describe(layout.distribution)},
          {"strip_bytes", layout.strip_bytes},
          {"generation", layout.generation},
          {"slots", slots}};
}

Result<std::vector<Listed>> list_directory(assembly::ClientProcess& process, Handle directory) {
  std::vector<Listed> all;
  PagedDirectory listing(directory, true);
  while (!listing.all_listed()) {
    SPATE_TRY(std::ignore, process.run([&](client::Client& client) { return listing.list_more(client); }));
    while (listing.has_next()) {
      wire::DirectoryEntry entry = listing.take();
      Attributes attributes = entry.attributes.value_or(Attributes{});
      attributes.handle = entry.handle;
      attributes.type = entry.type;
      all.push_back({std::move(entry.name), attributes, entry.layout.value_or(Layout{})});
    }
  }
  std::sort(all.begin(), all.end(), [](const Listed& a, const Listed& b) { return a.name < b.name; });
  return all;
}

}  // namespace spate::tools
