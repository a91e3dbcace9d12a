// SPDX-License-Identifier: Apache-2.0
// Sizes, durations and points in time as people write them: "64 KiB", "100 ms", "2027-01-31 12:00 UTC".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace spate {

/// "0", "4096", "64K", "64 KiB", "1MiB", "2G", "1 TiB": bytes; K, M, G and T are powers of 1024, with or without "iB".
/// kInvalidArgument for anything else (KB and MB too: they mean two things), kOutOfRange from 2^63 on.
Result<std::uint64_t> parse_size(std::string_view text);

/// "250 us", "100ms", "30 s", "5 min", "1 h" (also "ns"); "0" needs no unit. kInvalidArgument for anything else,
/// kOutOfRange above 292 years.
Result<Duration> parse_duration(std::string_view text);

/// The shortest exact form that the parsers above read: "64 KiB", "1000"; "100 ms", "90 s", "0". `span` >= 0.
std::string format_size(std::uint64_t bytes);
std::string format_duration(Duration span);

/// "2027-01-31" (its first moment), "2027-01-31T12:00", "2027-01-31T12:00:05Z", also with a space for the T, and " UTC"
/// for the Z: always UTC. kInvalidArgument for anything else, and for years outside 1970..2199.
Result<WallTime> parse_time(std::string_view text);
/// "2027-01-31 12:00:05 UTC".
std::string format_time(WallTime time);

}  // namespace spate
