// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include "base/expect.h"

namespace spate {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Units, SizesAsPeopleWriteThem) {
  EXPECT_EQ(*parse_size("0"), 0U);
  EXPECT_EQ(*parse_size("4096"), 4096U);
  EXPECT_EQ(*parse_size("64K"), 65536U);
  EXPECT_EQ(*parse_size("64 KiB"), 65536U);
  EXPECT_EQ(*parse_size("1MiB"), 1U << 20U);
  EXPECT_EQ(*parse_size("8388607 TiB"), 8388607ULL << 40U);
}

TEST(Units, OtherSizesAreRefused) {
  for (const char* bad : {"", " ", "-1", "+1", "KiB", "1KB", "1mib", "1.5M", "1  M", "1M ", "0x10", "1 "}) {
    EXPECT_ERRC(parse_size(bad), Errc::kInvalidArgument) << bad;
  }
  for (const char* bad : {"9223372036854775808", "8388608 TiB", "99999999999999999999999"}) {
    EXPECT_ERRC(parse_size(bad), Errc::kOutOfRange) << bad;
  }
}

TEST(Units, Durations) {
  EXPECT_EQ(*parse_duration("100ms"), milliseconds(100));
  EXPECT_EQ(*parse_duration("30 s"), seconds(30));
  EXPECT_EQ(*parse_duration("2 min"), seconds(120));
  EXPECT_EQ(*parse_duration("0"), seconds(0));
  for (const char* bad : {"100", "1m", "1 sec", "-1 s", "1.5 s"}) {
    EXPECT_ERRC(parse_duration(bad), Errc::kInvalidArgument) << bad;
  }
  EXPECT_ERRC(parse_duration("9999999999 h"), Errc::kOutOfRange);
}

TEST(Units, TimesAreReadInUtc) {
  const std::int64_t midnight = 1'801'353'600;  // date -u -d 2027-01-31 +%s
  const auto in_seconds = [](const char* text) { return parse_time(text).value().ns / 1'000'000'000; };
  EXPECT_EQ(in_seconds("2027-01-31"), midnight);
  for (const char* noon : {"2027-01-31T12:00", "2027-01-31T12:00Z", "2027-01-31 12:00", "2027-01-31 12:00 UTC"})
    EXPECT_EQ(in_seconds(noon), midnight + 12 * 3600) << noon;
  for (const char* later : {"2027-01-31T00:00:05Z", "2027-01-31 00:00:05 UTC"})
    EXPECT_EQ(in_seconds(later), midnight + 5) << later;
  for (const char* bad : {"", "tomorrow", "2027", "2027-02-30", "2027-13-01", "27-01-01", "2027-01-31T25:00",
                          "2027-01-31x", "2027-01-31T00:00:60Z", "9999-01-01", "-2027-01-01"})
    EXPECT_ERRC(parse_time(bad), Errc::kInvalidArgument) << bad;
  EXPECT_EQ(format_time(WallTime{(midnight + 5) * 1'000'000'000}), "2027-01-31 00:00:05 UTC");
  EXPECT_EQ(format_time(WallTime{-1}), "1969-12-31 23:59:59 UTC");
}

TEST(Units, ParsesWhatItFormats) {
  EXPECT_EQ(format_size(1 << 20), "1 MiB");
  EXPECT_EQ(format_size(1000), "1000");
  EXPECT_EQ(format_duration(milliseconds(1500)), "1500 ms");
  for (const std::uint64_t n : {0ULL, 1ULL, 1023ULL, 1024ULL, 1536ULL, 1ULL << 41U, 86'400'000'000'000ULL}) {
    EXPECT_EQ(*parse_size(format_size(n)), n);
    EXPECT_EQ(*parse_duration(format_duration(Duration(n))), Duration(n));
  }
}

}  // namespace
}  // namespace spate
