// SPDX-License-Identifier: Apache-2.0
// The handshake inside of TLS.
#include "base/expect.h"
#include "rpc/handshake_fixture.h"

namespace spate::rpc {
namespace {

struct TlsMeeting : Meeting {
  TlsMeeting() {
    dialled = reached = "tcp+tls://10.0.0.7:7400";
    dialled_binding.fill(std::byte{5});
    reached_binding = dialled_binding;
  }
};

TEST(TlsHandshake, MessagesAreNotSealedTwice) {
  TlsMeeting meeting;
  meeting.identity.policy.protect = wire::Protect::kData;
  meeting.options.protect = wire::Protect::kData;
  ASSERT_OK(meeting.handshake());
  EXPECT_EQ(meeting.protect, wire::Protect::kNone);
  EXPECT_TRUE(meeting.both_alike);
  EXPECT_EQ(meeting.keys.link, meeting.initiator_keys.link);  // bulk connections prove it
}

TEST(TlsHandshake, ARelayThatEndsTlsIsDetected) {
  TlsMeeting meeting;
  meeting.reached_binding[31] ^= std::byte{1};  // it has one connection to each side
  const auto met = meeting.handshake();
  ASSERT_ERRC(met, Errc::kUnauthenticated);
  EXPECT_EQ(meeting.refused_by, "initiator");
  EXPECT_NE(met.error().message().find("did not prove the key"), std::string::npos);
}

TEST(TlsHandshake, ARelayThatTakesTlsAwayIsDetected) {
  for (const bool by_address : {true, false}) {  // it leaves the address, or claims that of the other network
    TlsMeeting meeting;
    meeting.dialled_binding = Hash{};
    if (by_address) meeting.dialled = "tcp://10.0.0.7:7400";
    EXPECT_ERRC(meeting.handshake(), Errc::kUnauthenticated) << by_address;
    EXPECT_EQ(meeting.refused_by, "initiator");
  }
}

TEST(TlsHandshake, AnotherNetworkThanTheDialledOneIsRefusedBehindAddressTranslationToo) {
  TlsMeeting meeting;
  meeting.identity.policy.behind_nat = true;
  meeting.reached = "tcp://10.0.0.7:7400";
  EXPECT_ERRC(meeting.handshake(), Errc::kUnauthenticated);
}

}  // namespace
}  // namespace spate::rpc
