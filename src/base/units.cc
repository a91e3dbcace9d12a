// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <span>

namespace spate {
namespace {

constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;

struct UnitRow {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::array<UnitRow, 9> kSizeUnits = {{{"", 1},
                                                {"KiB", 1ULL << 10U},
                                                {"MiB", 1ULL << 20U},
                                                {"GiB", 1ULL << 30U},
                                                {"TiB", 1ULL << 40U},
                                                {"K", 1ULL << 10U},
                                                {"M", 1ULL << 20U},
                                                {"G", 1ULL << 30U},
                                                {"T", 1ULL << 40U}}};
constexpr std::array<UnitRow, 6> kTimeUnits = {{{"ns", 1},
                                                {"us", 1'000},
                                                {"ms", 1'000'000},
                                                {"s", 1'000'000'000},
                                                {"min", 60'000'000'000},
                                                {"h", 3'600'000'000'000}}};

Result<std::uint64_t> parse(std::string_view text, std::span<const UnitRow> units, std::string_view example) {
  const auto refuse = [&](Errc code, std::string_view why) {
    return Error(code,
                 "\"" + std::string(text.substr(0, 40)) + "\" " + std::string(why) + ", write " + std::string(example));
  };
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range) return refuse(Errc::kOutOfRange, "is too large");
  if (error != std::errc()) return refuse(Errc::kInvalidArgument, "is not a number with a unit");
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (unit.size() > 1 && unit[0] == ' ') unit.remove_prefix(1);
  if (number == 0 && unit.empty()) return 0U;
  for (const UnitRow& row : units) {
    if (row.name != unit) continue;
    if (number > static_cast<std::uint64_t>(INT64_MAX) / row.factor) return refuse(Errc::kOutOfRange, "is too large");
    return number * row.factor;
  }
  return refuse(Errc::kInvalidArgument, "has no known unit");
}

/// With the largest unit that divides the number.
std::string format(std::uint64_t number, std::span<const UnitRow> units) {
  if (number == 0) return "0";
  const UnitRow* best = &units[0];
  for (const UnitRow& row : units) {
    if (row.factor >= best->factor && number % row.factor == 0) best = &row;
  }
  const std::string digits = std::to_string(number / best->factor);
  return best->name.empty() ? digits : digits + " " + std::string(best->name);
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) { return parse(text, kSizeUnits, "64KiB or 1MiB"); }

Result<Duration> parse_duration(std::string_view text) {
  SPATE_TRY(const std::uint64_t ns, parse(text, kTimeUnits, "100ms or 30s"));
  return Duration(static_cast<Duration::rep>(ns));
}

std::string format_size(std::uint64_t bytes) { return format(bytes, std::span(kSizeUnits).first(5)); }

Result<WallTime> parse_time(std::string_view text) {
  const std::string whole(text);
  for (const char* const form : {"%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%MZ", "%Y-%m-%dT%H:%M:%SZ",
                                 "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M UTC", "%Y-%m-%d %H:%M:%S UTC"}) {
    std::tm parts{};
    const char* const end = ::strptime(whole.c_str(), form, &parts);
    if (end == nullptr || end != whole.c_str() + whole.size()) continue;
    const std::tm wanted = parts;
    const std::time_t seconds = ::timegm(&parts);  // makes 1 March of 30 February
    const bool exists =
        parts.tm_mday == wanted.tm_mday && parts.tm_mon == wanted.tm_mon && parts.tm_sec == wanted.tm_sec;
    if (exists && wanted.tm_year >= 70 && wanted.tm_year < 300) return WallTime{seconds * kNanosecondsPerSecond};
  }
  return Error::told(Errc::kInvalidArgument,
                     "\"" + whole + "\" is no point in time: write 2027-01-31 or 2027-01-31T12:00 (UTC)");
}

std::string format_time(WallTime time) {
  const std::time_t seconds = time.ns / kNanosecondsPerSecond - (time.ns % kNanosecondsPerSecond < 0 ? 1 : 0);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02d-%02d %02d:%02d:%02d UTC", parts.tm_year + 1900, parts.tm_mon + 1,
                parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
  return text.data();
}

std::string format_duration(Duration span) { return format(static_cast<std::uint64_t>(span.count()), kTimeUnits); }

}  // namespace spate
