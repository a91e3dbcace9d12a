// SPDX-License-Identifier: Apache-2.0
#include "bmi/protocol/peer_log.h"

#include <gmock/gmock.h>

#include "base/expect.h"
#include "log/output.h"

namespace spate::bmi::protocol {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(PeerLog, AKindOfFailureThatRepeatsHidesNoOtherKind) {
  ManualClock clock;
  const log::Capture lines(clock);
  PeerLog log(clock, "bmi/tcp");
  for (int i = 0; i < 3; ++i) log.connect_failed("tcp://b", "nobody listens there");
  log.peer_dropped("c", "protocol error");
  log.unauthenticated_dropped("d", "not authenticated in time");
  EXPECT_THAT(lines.text(), HasSubstr("nobody listens there"));
  EXPECT_THAT(lines.text(), HasSubstr("protocol error"));
  EXPECT_THAT(lines.text(), HasSubstr("not authenticated in time"));
}

TEST(PeerLog, AFailureThatRepeatsIsLoggedOnceInTenSecondsWithTheNumberOfTheOthers) {
  ManualClock clock;
  log::Capture lines(clock);
  PeerLog log(clock, "bmi/tcp");
  for (int i = 0; i < 3; ++i) log.connect_failed("tcp://b", "nobody listens there");
  EXPECT_THAT(lines.text(), Not(HasSubstr("suppressed")));
  clock.advance(std::chrono::seconds(11));
  lines.clear();
  log.connect_failed("tcp://b", "nobody listens there");
  EXPECT_THAT(lines.text(), HasSubstr("2 more suppressed"));
}

}  // namespace
}  // namespace spate::bmi::protocol
