// SPDX-License-Identifier: Apache-2.0
#include "bmi/protocol/peer_base.h"

#include "bmi/protocol/fixture.h"

namespace spate::bmi::protocol {
namespace {

TEST_F(ProtocolTest, AMessageFillsThePostedReceiveOfItsTag) {
  receive(5, 100);
  const Op& op = receive(6, 100);
  ASSERT_TRUE(arrives(header_of(FrameType::kEager, 6, 60), 20));
  ASSERT_TRUE(arrives(header_of(FrameType::kMore, 0, 0), 40));
  ASSERT_EQ(ended().size(), 1U);
  EXPECT_EQ(ended()[0].actual_size, 60U);
  EXPECT_FALSE(op.id) << "the operation has not ended";
  EXPECT_EQ(peer.receiver().owed(kControl), cost_of(60)) << "its credit goes back";
}

TEST_F(ProtocolTest, AMessageWaitsForItsReceive) {
  ASSERT_TRUE(arrives(header_of(FrameType::kEager, 6, 60), 60));
  EXPECT_EQ(peer.receiver().owed(kControl), 0U);
  receive(6, 100);
  ASSERT_EQ(ended().size(), 1U);
  EXPECT_EQ(ended()[0].status, Errc::kOk);
  EXPECT_EQ(peer.receiver().owed(kControl), cost_of(60));
}

TEST_F(ProtocolTest, AnAbortedMessagePutsItsReceiveBackInFront) {
  const Op& first = receive(6, 100);
  receive(6, 100);
  ASSERT_TRUE(arrives(header_of(FrameType::kEager, 6, 60), 20));
  EXPECT_EQ(first.state, OpState::kFilling);
  ASSERT_TRUE(peer.receiver().abort(incoming)) << "a message is on its way";
  EXPECT_FALSE(peer.receiver().abort(incoming)) << "nothing is on its way";
  EXPECT_EQ(first.state, OpState::kPosted);
  const OpId id = first.id;
  ASSERT_TRUE(arrives(header_of(FrameType::kEager, 6, 10), 10));
  ASSERT_EQ(ended().size(), 1U);
  EXPECT_EQ(ended()[0].op, id);
}

TEST_F(ProtocolTest, FramesThatDoNotContinueTheMessageAreRefused) {
  EXPECT_FALSE(arrives(header_of(FrameType::kMore, 0, 0), 1)) << "nothing was begun";
  ASSERT_TRUE(arrives(header_of(FrameType::kEager, 6, 60), 20));
  EXPECT_FALSE(arrives(header_of(FrameType::kEager, 6, 60), 20)) << "the first one is not over";
  EXPECT_FALSE(arrives(header_of(FrameType::kMore, 0, 0), 41)) << "longer than it said";
  EXPECT_FALSE(arrives(header_of(FrameType::kMore, 0, 0), 0)) << "no progress";
}

TEST_F(ProtocolTest, MoreThanTheCreditIsRefused) {
  ASSERT_TRUE(arrives(header_of(FrameType::kEager, 6, 9000), 9000));
  EXPECT_FALSE(arrives(header_of(FrameType::kEager, 6, 800), 800));
}

TEST_F(ProtocolTest, AnUnauthenticatedPeerHasLessCredit) {
  peer.unauthenticated = true;
  ASSERT_TRUE(arrives(header_of(FrameType::kUnexpected, 6, 100), 100));
  EXPECT_EQ(peer.asked, 1);
  EXPECT_FALSE(arrives(header_of(FrameType::kEager, 6, 700), 700));
}

TEST_F(ProtocolTest, UnexpectedMessagesNotTakenShrinkTheNextWindow) {
  ASSERT_TRUE(arrives(header_of(FrameType::kUnexpected, 6, 100), 100));
  peer.reset(Errc::kConnectionLost);
  EXPECT_EQ(peer.receiver().grant().window, kLimits.window - cost_of(100));
  connect();
  EXPECT_TRUE(peer.consumed(cost_of(100))) << "the peer has its connection again";
  EXPECT_EQ(peer.receiver().owed(kControl), cost_of(100)) << "the peer gets the rest of its window";
}

TEST_F(ProtocolTest, WithoutCreditASmallMessageIsAnnounced) {
  for (int i = 0; i < 4; ++i) send(1, 1000);  // half of the window is for unexpected messages
  EXPECT_EQ(peer.payloads.size(), 3U);
  const Header announced = peer.only();
  EXPECT_EQ(announced.type, FrameType::kAnnounce);
  EXPECT_EQ(announced.length, 1000U);
  ASSERT_TRUE(peer.control(header_of(FrameType::kClear, 77, 0, announced.id))) << "the message was announced";
  EXPECT_EQ(peer.payloads.back().type, FrameType::kData);
  EXPECT_EQ(peer.payloads.back().id, 77U);
}

TEST_F(ProtocolTest, AnUnexpectedMessageWaitsForCredit) {
  while (!peer.sender().waits_for_credit()) send(1, 1000, kControl, true);
  EXPECT_EQ(peer.payloads.size(), 7U);
  EXPECT_TRUE(peer.sender().starves()) << "a message waits for credit";
  ASSERT_TRUE(peer.sender().give(kControl, cost_of(1000))) << "the credit is not more than can be counted";
  EXPECT_EQ(peer.payloads.size(), 8U);
  EXPECT_FALSE(peer.sender().waits_for_credit()) << "the credit was enough for the message";
}

TEST_F(ProtocolTest, CreditBesideTheFramesIsFetchedBeforeASenderWaits) {
  for (int i = 0; i < 7; ++i) send(1, 1000, kControl, true);
  peer.credit_for_a_sleeper = cost_of(1000);
  send(1, 1000, kControl, true);
  EXPECT_EQ(peer.payloads.size(), 8U);
}

TEST_F(ProtocolTest, AnnouncementsBeyondThePeersLimitWait) {
  Op& first = send(1, 5000);
  send(1, 5000);
  const Op& third = send(1, 5000);
  EXPECT_EQ(third.state, OpState::kWaitTurn);
  EXPECT_EQ(peer.frames.size(), 2U);
  peer.cancel(first);
  EXPECT_EQ(third.state, OpState::kAnnounced);
}

TEST_F(ProtocolTest, AClearForAWithdrawnMessageIsAnsweredOnce) {
  Op& op = send(1, 5000);
  const std::uint64_t id = op.id.value;
  peer.cancel(op);
  EXPECT_EQ(ended().back().status, Errc::kCancelled);
  peer.frames.clear();
  ASSERT_TRUE(peer.control(header_of(FrameType::kClear, 77, 0, id))) << "the message was announced";
  const Header answer = peer.only();
  EXPECT_EQ(answer.type, FrameType::kNoData);
  EXPECT_EQ(answer.id, 77U);
  EXPECT_FALSE(peer.control(header_of(FrameType::kClear, 77, 0, id))) << "nothing else was withdrawn";
}

TEST_F(ProtocolTest, ALocatedMessageKeepsItsMemoryUntilThePeerConfirms) {
  peer.offers = true;
  Op& op = send(1, 5000);
  const Header announced = peer.only();
  EXPECT_EQ(announced.flags, kFlagLocated);
  peer.cancel(op);
  EXPECT_EQ(peer.graces, 1);
  EXPECT_EQ(peer.sender().first_withdrawing(), &op);
  EXPECT_EQ(ended().size(), 0U);
  ASSERT_TRUE(peer.control(header_of(FrameType::kWithdrawn, 0, 0, announced.id))) << "the message was withdrawn";
  ASSERT_EQ(ended().size(), 1U);
  EXPECT_EQ(ended()[0].status, Errc::kCancelled);
  EXPECT_FALSE(peer.control(header_of(FrameType::kTaken, 0, 0, announced.id))) << "it is over";
}

TEST_F(ProtocolTest, ACancelledSendGivesItsCreditBackIfNothingHasLeft) {
  Op& op = send(1, 1000, kControl, true);
  for (int i = 0; i < 6; ++i) send(1, 1000, kControl, true);
  send(1, 1000, kControl, true);
  ASSERT_TRUE(peer.sender().waits_for_credit()) << "the last message found credit, so this tests nothing";
  peer.cancel(op);
  peer.sender().run_waiting();
  EXPECT_FALSE(peer.sender().waits_for_credit()) << "the credit of the cancelled message was enough";
}

TEST_F(ProtocolTest, ASendThatCannotBeStoppedEndsLater) {
  Op& op = send(1, 100);
  peer.withdraws = Withdrawn::kLeaving;
  peer.cancel(op);
  EXPECT_EQ(peer.graces, 1);
  EXPECT_EQ(ended().size(), 0U);
  peer.sender().sent(op);
  EXPECT_EQ(ended().size(), 1U);
}

TEST_F(ProtocolTest, AReceiveReadsALocatedMessage) {
  receive(6, 100, kBulk);
  ASSERT_TRUE(peer.receiver().on_announce(header_of(FrameType::kAnnounce, 6, 100, 9, kBulk), {Extent{0, 1, 100}}))
      << "the announcement was refused";
  ASSERT_NE(peer.pulling, nullptr);
  EXPECT_TRUE(peer.frames.empty()) << "nothing is cleared";
  peer.receiver().pulled(*peer.pulling);
  const Header taken = peer.only();
  EXPECT_EQ(taken.type, FrameType::kTaken);
  EXPECT_EQ(taken.id, 9U);
  EXPECT_EQ(ended().back().actual_size, 100U);
}

TEST_F(ProtocolTest, AReceiveWhoseMemoryTheDeviceUsesOutlivesTheConnection) {
  Op& op = receive(6, 100, kBulk);
  ASSERT_TRUE(peer.receiver().on_announce(header_of(FrameType::kAnnounce, 6, 100, 9, kBulk), {Extent{0, 1, 100}}))
      << "the announcement was refused";
  peer.pull_stops = false;
  peer.cancel(op);
  peer.reset(Errc::kConnectionLost);
  EXPECT_EQ(ended().size(), 0U);
  EXPECT_EQ(peer.first_op(), &op);
  state.completed(op, Errc::kCancelled, 0);
}

TEST_F(ProtocolTest, AReceiveWaitsAgainWhenTheDataWillNotCome) {
  const Op& op = receive(6, 100);
  ASSERT_TRUE(peer.receiver().on_announce(header_of(FrameType::kAnnounce, 6, 100, 9), {}))
      << "the announcement was refused";
  EXPECT_EQ(op.state, OpState::kAwaitData);
  ASSERT_TRUE(peer.control(header_of(FrameType::kNoData, 0, 0, op.id.value))) << "the receive awaits the data";
  EXPECT_EQ(op.state, OpState::kPosted);
  EXPECT_FALSE(peer.control(header_of(FrameType::kNoData, 0, 0, op.id.value))) << "it awaits none";
}

TEST_F(ProtocolTest, AWithdrawnAnnouncementMatchesNothing) {
  ASSERT_TRUE(peer.receiver().on_announce(header_of(FrameType::kAnnounce, 6, 100, 9), {}))
      << "the announcement was refused";
  ASSERT_TRUE(peer.control(header_of(FrameType::kWithdraw, 6, 0, 9))) << "the message was announced";
  const Op& op = receive(6, 100);
  EXPECT_EQ(op.state, OpState::kPosted);
}

TEST_F(ProtocolTest, TheEndOfTheConnectionEndsEveryOperation) {
  receive(6, 100);
  send(1, 5000);
  send(1, 100);
  peer.reset(Errc::kConnectionLost);
  ASSERT_EQ(ended().size(), 3U);
  EXPECT_EQ(ended()[0].status, Errc::kConnectionLost);
  EXPECT_EQ(peer.first_op(), nullptr);
}

TEST_F(ProtocolTest, SendsOfAClosedClassWaitUntilItOpens) {
  peer.reset(Errc::kConnectionLost);
  peer.state = PeerPhase::kIdle;
  send(1, 100);
  EXPECT_EQ(peer.wanted, 1);
  EXPECT_EQ(peer.payloads.size(), 0U);
  connect();
  EXPECT_EQ(peer.payloads.size(), 1U);
}

}  // namespace
}  // namespace spate::bmi::protocol
