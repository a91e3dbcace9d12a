// SPDX-License-Identifier: Apache-2.0
// Renders one line of the log; pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "log/log.h"

namespace spate::log {

/// kText: `2026-11-21T03:46:00.123456Z warn bmi/tcp connection lost peer=tcp://a:1`.
/// kJson: one object a line: time, level, folder, message and, under "fields", every key=value of the line.
enum class Format : std::uint8_t { kText, kJson };

/// Bytes. A longer line is cut and ends with "...".
inline constexpr std::size_t kMaxLineBytes = 8192;

struct Line {
  WallTime time;
  Level level = Level::info;
  std::string_view folder;
  std::string_view body;  // the formatted message with its key=value fields; any bytes
};

/// "2026-11-21T03:46:00.123456Z"; UTC, microseconds.
std::string timestamp(WallTime time);

/// Without a line end; at most about kMaxLineBytes, control characters escaped.
std::string render(const Line& line, Format format);

}  // namespace spate::log
