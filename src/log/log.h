// SPDX-License-Identifier: Apache-2.0
// SPATE_LOG: one line for each event, "what happened key=value key=value", to standard error, a file or a Sink. This
// header is light on purpose: every file that logs includes it.
#pragma once

#include <fmt/core.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/result.h"

namespace spate::log {

/// error: someone must act. warn: degraded. info: life cycle. debug: per request. trace: per message.
enum class Level : std::uint8_t { off = 0, error, warn, info, debug, trace };

/// The folders whose level can be set: those of src/, and "test" for tests.
inline constexpr std::array<std::string_view, 25> kFolders = {
    "base",    "config", "metrics", "model",    "dist",   "datatype", "wire", "bmi",   "trove",
    "job",     "flow",   "rpc",     "server",   "client", "posix",    "capi", "tools", "daemon",
    "preload", "fuse",   "nbd",     "assembly", "coord",  "group",    "test"};

namespace detail {

// The only state that a disabled SPATE_LOG reads: one relaxed byte.
extern std::array<std::atomic<std::uint8_t>, kFolders.size()> levels;

constexpr std::uint8_t folder_index(std::string_view name) {
  const std::string_view top = name.substr(0, name.find('/'));
  for (std::size_t i = 0; i < kFolders.size(); ++i) {
    if (kFolders[i] == top) return static_cast<std::uint8_t>(i);
  }
  throw "not in kFolders";  // only ever in a constant expression, where it is a compile error
}

}  // namespace detail

class Logger;

/// The origin of a line: a folder's name as a literal, or a Logger. "bmi/tcp" is shown whole and has the level of
/// "bmi". A misspelt name does not compile. Borrows; lives for one SPATE_LOG.
class Source {
 public:
  consteval Source(const char* folder)  // NOLINT(google-explicit-constructor)
      : folder_(folder), index_(detail::folder_index(folder)) {}
  Source(const Logger& logger);  // NOLINT(google-explicit-constructor)

  bool enabled(Level level) const {
    return detail::levels[index_].load(std::memory_order_relaxed) >= static_cast<std::uint8_t>(level);
  }
  std::string_view folder() const { return folder_; }
  std::string_view fields() const { return fields_; }

 private:
  std::string_view folder_;
  std::string_view fields_;
  std::uint8_t index_;
};

/// A folder together with fields that every line of one object carries: Logger("server", "server=3").
class Logger {
 public:
  Logger(Source source, std::string fields) : source_(source), fields_(std::move(fields)) {}

 private:
  friend class Source;
  Source source_;
  std::string fields_;
};

inline Source::Source(const Logger& logger) : Source(logger.source_) { fields_ = logger.fields_; }

/// Sets the level of one folder or, for "", of all. kInvalidArgument for an unknown folder. Thread-safe, at any time.
Result<void> set_level(std::string_view folder, Level level);
/// Sets levels from a text such as "info,bmi=debug", from left to right. A level without a folder is for all folders.
/// On failure no level changes.
Result<void> set_levels(std::string_view spec);
/// "error", "warn", "info", "debug", "trace", "off".
Result<Level> parse_level(std::string_view name);
std::string_view name(Level level);

/// Writes a line whatever the level. Use SPATE_LOG instead. Thread-safe. Never fails: it counts lines that it cannot
/// write.
void vwrite(const Source& source, Level level, fmt::string_view format, fmt::format_args args);

template <typename... Args>
void write(const Source& source, Level level, fmt::format_string<Args...> format, Args&&... args) {
  vwrite(source, level, format, fmt::make_format_args(args...));
}

}  // namespace spate::log

/// SPATE_LOG("bmi/tcp", warn, "connection lost peer={} error={}", url, code); `where`: a folder's name or a Logger;
/// `level`: a bare enumerator of Level. When the level is off, the other arguments are not evaluated. Values from
/// outside may hold any bytes: control characters are escaped, and a line is cut at kMaxLineBytes.
#define SPATE_LOG(where, level, ...)                                                                                \
  do {                                                                                                              \
    if (const ::spate::log::Source spate_log_source(where); spate_log_source.enabled(::spate::log::Level::level)) { \
      ::spate::log::write(spate_log_source, ::spate::log::Level::level, __VA_ARGS__);                               \
    }                                                                                                               \
  } while (false)
