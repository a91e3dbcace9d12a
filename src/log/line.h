// SPDX-License-Identifier: Apache-2.0
// The text of one line; pure. Used by output.cc only.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "log/log.h"
#include "log/output.h"

namespace spate::log {

struct Line {
  WallTime time;
  Level level = Level::info;
  std::string_view folder;
  std::string_view body;  // what was formatted, with its key=value fields; any bytes
};

/// "2026-11-21T03:46:00.123456Z"; UTC, microseconds.
std::string timestamp(WallTime time);

/// Without a line end; at most about kMaxLineBytes, control characters escaped.
std::string render(const Line& line, Format format);

}  // namespace spate::log
