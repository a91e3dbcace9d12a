// SPDX-License-Identifier: Apache-2.0
#include "rpc/audit_rate.h"

#include "base/expect.h"

namespace spate::rpc {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

MonoTime at(Duration since_start) { return MonoTime{since_start}; }

int admitted(AuditRate& rate, const std::string& source, int events, MonoTime now) {
  int lines = 0;
  for (int i = 0; i < events; ++i) lines += rate.admit(source, now) ? 1 : 0;
  return lines;
}

TEST(AuditRateTest, AFloodOfOneSourceLeavesRoomForOthers) {
  AuditRate rate;
  EXPECT_EQ(admitted(rate, "mallory", 1'000'000, at(seconds(1))), 20);
  EXPECT_EQ(admitted(rate, "alice", 5, at(seconds(1))), 5);
  EXPECT_EQ(admitted(rate, "mallory", 1000, at(seconds(4))), 3) << "one a second from then on";
}

TEST(AuditRateTest, TheNextLineCountsTheOmittedLines) {
  AuditRate rate;
  admitted(rate, "mallory", 50, at(seconds(1)));
  EXPECT_EQ(rate.admit("alice", at(seconds(1))), std::optional<std::uint64_t>(30));
  EXPECT_EQ(rate.admit("alice", at(seconds(1))), std::optional<std::uint64_t>(0));
}

TEST(AuditRateTest, ManySourcesTogetherAreLimited) {
  AuditRate rate;
  int lines = 0;
  for (int second = 0; second < 1000; ++second) {
    for (int i = 0; i < 100; ++i) lines += admitted(rate, std::to_string(1000 * second + i), 1, at(seconds(second)));
  }
  EXPECT_LE(lines, 200 + 5 * 1000);
  EXPECT_GE(lines, 5 * 1000);
}

TEST(AuditRateTest, SourcesThatAreSilentAreForgotten) {
  AuditRate rate;
  for (int i = 0; i < 5000; ++i) rate.admit(std::to_string(i), at(seconds(1)));
  EXPECT_EQ(admitted(rate, "alice", 5, at(hours(1))), 5) << "she does not share with the crowd any more";
  EXPECT_EQ(admitted(rate, "bob", 50, at(hours(1))), 20);
}

TEST(AuditRateTest, APauseAllowsNoMoreThanTheLargestBurst) {
  AuditRate rate;
  EXPECT_EQ(admitted(rate, "alice", 100, at(seconds(1))), 20);
  EXPECT_EQ(admitted(rate, "alice", 100, at(hours(100))), 20);
  EXPECT_EQ(admitted(rate, "alice", 100, at(hours(100) + milliseconds(100))), 0);
}

}  // namespace
}  // namespace spate::rpc
