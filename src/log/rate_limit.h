// SPDX-License-Identifier: Apache-2.0
// RateLimit: keeps a repeated failure (a dead peer) from filling the log.
#pragma once

#include <fmt/core.h>

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace spate::log {

/// The number of lines suppressed since the last one. Prints as "" for none, else as " (17 more suppressed)".
struct Suppressed {
  std::uint64_t count = 0;
};

/// Lets one event through per interval and counts the others. Use one for each thing that may fail independently (a
/// peer).
///   if (const auto more = limit_.admit()) SPATE_LOG("bmi", warn, "peer unreachable peer={}{}", url, *more);
/// Thread-safe. `clock` outlives it.
class RateLimit {
 public:
  explicit RateLimit(const Clock& clock, Duration interval = std::chrono::seconds(10))
      : clock_(clock), interval_(interval) {}

  /// The count to print, or nothing if this event is suppressed.
  std::optional<Suppressed> admit();
  /// Returns the number of suppressed events that were not yet printed, and resets it. Use it for the line that reports
  /// a recovery.
  Suppressed reset();

 private:
  const Clock& clock_;
  const Duration interval_;
  std::atomic<std::int64_t> next_ns_{INT64_MIN};  // on clock_; events before it are suppressed
  std::atomic<std::uint64_t> suppressed_{0};
};

}  // namespace spate::log

template <>
struct fmt::formatter<spate::log::Suppressed> : fmt::formatter<fmt::string_view> {
  fmt::appender format(spate::log::Suppressed suppressed, fmt::format_context& context) const;
};
