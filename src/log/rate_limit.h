// SPDX-License-Identifier: Apache-2.0
// RateLimit: keeps what fails again and again (a dead peer) from filling the log.
#pragma once

#include <fmt/core.h>

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace spate::log {

/// Lines swallowed since the last one; prints as "" for none, else as " (17 more suppressed)".
struct Suppressed {
  std::uint64_t count = 0;
};

/// Lets one event through per interval and counts the others. One for each thing that may fail by itself (a peer).
///   if (const auto more = limit_.admit()) SPATE_LOG("bmi", warn, "peer unreachable peer={}{}", url, *more);
/// Thread-safe. `clock` outlives it.
class RateLimit {
 public:
  explicit RateLimit(const Clock& clock, Duration interval = std::chrono::seconds(10))
      : clock_(clock), interval_(interval) {}

  /// What to print, or nothing when this event is to be swallowed.
  std::optional<Suppressed> admit();
  /// What was swallowed and not yet told: for the line that says that it works again. Starts anew.
  Suppressed reset();

 private:
  const Clock& clock_;
  const Duration interval_;
  std::atomic<std::int64_t> next_ns_{INT64_MIN};  // on clock_; before it events are swallowed
  std::atomic<std::uint64_t> suppressed_{0};
};

}  // namespace spate::log

template <>
struct fmt::formatter<spate::log::Suppressed> : fmt::formatter<fmt::string_view> {
  fmt::appender format(spate::log::Suppressed suppressed, fmt::format_context& context) const;
};
