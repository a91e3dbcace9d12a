// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <tuple>

#include "log/log.h"

namespace spate::log {
namespace {

constexpr std::array<std::string_view, 6> kLevelNames = {"off", "error", "warn", "info", "debug", "trace"};

using Levels = std::array<std::optional<Level>, kFolders.size()>;

Error unknown_folder(std::string_view folder) {
  std::string known;
  for (const std::string_view f : kFolders) known.append(known.empty() ? "" : ", ").append(f);
  return Error(Errc::kInvalidArgument, fmt::format("no log folder \"{}\" (there are: {})", folder, known));
}

Result<void> apply(std::string_view folder, Level level, Levels& levels) {
  bool found = false;
  for (std::size_t i = 0; i < kFolders.size(); ++i) {
    if (folder.empty() || kFolders[i] == folder) {
      levels[i] = level;
      found = true;
    }
  }
  if (!found) return unknown_folder(folder);
  return {};
}

void publish(const Levels& levels) {
  for (std::size_t i = 0; i < levels.size(); ++i) {
    if (levels[i]) detail::levels[i].store(static_cast<std::uint8_t>(*levels[i]), std::memory_order_relaxed);
  }
}

}  // namespace

// The level is info until it is set. Constant-initialised, so that code before main may log.
namespace detail {
constinit std::array<std::atomic<std::uint8_t>, kFolders.size()> levels = []<std::size_t... I>(
                                                                              std::index_sequence<I...>) {
  return std::array<std::atomic<std::uint8_t>, kFolders.size()>{((void)I, static_cast<std::uint8_t>(Level::info))...};
}(std::make_index_sequence<kFolders.size()>());
}  // namespace detail

std::string_view name(Level level) { return kLevelNames[static_cast<std::size_t>(level)]; }

Result<Level> parse_level(std::string_view name) {
  for (std::size_t i = 0; i < kLevelNames.size(); ++i) {
    if (kLevelNames[i] == name) return static_cast<Level>(i);
  }
  return Error(Errc::kInvalidArgument,
               fmt::format("no log level \"{}\" (there are: off, error, warn, info, debug, trace)", name));
}

Result<void> set_level(std::string_view folder, Level level) {
  Levels levels;
  SPATE_TRY(std::ignore, apply(folder, level, levels));
  publish(levels);
  return {};
}

Result<void> set_levels(std::string_view spec) {
  Levels levels;
  while (!spec.empty()) {
    const std::size_t comma = spec.find(',');
    const std::string_view part = spec.substr(0, comma);
    spec = comma == std::string_view::npos ? std::string_view() : spec.substr(comma + 1);
    const std::size_t equals = part.find('=');
    const bool bare = equals == std::string_view::npos;
    SPATE_TRY(const Level level, parse_level(bare ? part : part.substr(equals + 1)));
    const std::string_view folder = bare ? std::string_view() : part.substr(0, equals);
    if (!bare && folder.empty()) return unknown_folder(folder);
    SPATE_TRY(std::ignore, apply(folder, level, levels));
  }
  publish(levels);
  return {};
}

}  // namespace spate::log
