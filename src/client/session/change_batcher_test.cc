// SPDX-License-Identifier: Apache-2.0
#include "client/session/change_batcher_test.h"

namespace spate::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_F(ChangeBatcherTest, FewChangesGoAtOnceAndByThemselves) {
  const std::size_t first = change("a");
  EXPECT_EQ(texts(0), std::vector<std::string>{"a"});
  answer(0);
  ASSERT_NE(outcomes_[first], std::nullopt);
  EXPECT_EQ(outcomes_[first]->value(), "a");
  EXPECT_EQ(batcher_.counters().batches, 0U);
}

TEST_F(ChangeBatcherTest, ChangesThatWaitGoTogether) {
  fill();
  const std::size_t a = change("a");
  const std::size_t bad = change("bad");
  const std::size_t b = change("b");
  EXPECT_EQ(requests_.size(), 2U);
  answer(0);
  ASSERT_EQ(requests_.size(), 3U);
  EXPECT_EQ(texts(2), (std::vector<std::string>{"a", "bad", "b"}));
  answer(2);
  EXPECT_EQ(outcomes_[a]->value(), "a");
  EXPECT_ERRC(*outcomes_[bad], Errc::kExists);
  EXPECT_EQ(outcomes_[b]->value(), "b");
  EXPECT_EQ(batcher_.counters().batches, 1U);
  EXPECT_EQ(batcher_.counters().batched, 3U);
}

TEST_F(ChangeBatcherTest, EachChangeGetsTheObjectsThatTheBatchHasTouched) {
  features_ = wire::kFeatureLeases;
  fill();
  const std::size_t a = change("a");
  const std::size_t b = change("b");
  answer(0);
  answer(2);
  for (const auto& [place, text] : {std::pair(a, "a"), std::pair(b, "b")}) {
    EXPECT_EQ(outcomes_[place]->value(), text);
    ASSERT_NE(lists_[place], nullptr);
    EXPECT_EQ(lists_[place]->touched.objects, std::vector{Handle(7)});
  }
}

TEST_F(ChangeBatcherTest, TheListsOfABatchAreReadOnceAndNotCopied) {
  features_ = wire::kFeatureLeases;
  fill();
  std::vector<std::size_t> places;
  for (int i = 0; i < 32; ++i) places.push_back(change("x"));
  answer(0);
  message_bytes_ = 0;
  answer(2);
  EXPECT_EQ(message_bytes_, 32U) << "each of the 32 replies has its own byte only";
  for (const std::size_t place : places) EXPECT_EQ(lists_[place], lists_[places.front()]) << place;
}

TEST_F(ChangeBatcherTest, AChangeThatABatchDoesNotTakeGoesByItself) {
  fill();
  const std::size_t a = change("a");
  change("other");
  change("large");
  answer(0);
  answer(2);
  EXPECT_EQ(outcomes_[a]->value(), "a");
  ASSERT_EQ(requests_.size(), 5U);
  EXPECT_EQ(texts(3), std::vector<std::string>{"other"});
  EXPECT_EQ(texts(4), std::vector<std::string>{"large"});
}

TEST_F(ChangeBatcherTest, AChangeThatMayHaveBeenMadeIsNotSentAgain) {
  fill();
  const std::size_t a = change("a");
  const std::size_t b = change("b");
  answer(0);
  answer(2, Errc::kMessageTooBig);  // a reply is too large, so its changes are committed
  EXPECT_ERRC(*outcomes_[a], Errc::kMessageTooBig);
  EXPECT_ERRC(*outcomes_[b], Errc::kMessageTooBig);
  EXPECT_EQ(requests_.size(), 3U);
}

TEST_F(ChangeBatcherTest, ABatchThatIsRefusedIsMadeOneByOne) {
  for (const Errc why : {Errc::kNotSupported, Errc::kBusy}) {
    requests_.clear();
    outcomes_.clear();
    fill();
    change("a");
    change("b");
    answer(0);
    answer(2, why);
    ASSERT_EQ(requests_.size(), 5U);
    for (std::size_t i : {1U, 3U, 4U}) answer(i);
    for (const auto& outcome : outcomes_) EXPECT_OK(*outcome);
  }
}

TEST_F(ChangeBatcherTest, AnErrorOfTheRequestIsTheResultOfEachChange) {
  fill();
  const std::size_t a = change("a");
  const std::size_t b = change("b");
  answer(0);
  answer(2, Errc::kTimeout);
  EXPECT_ERRC(*outcomes_[a], Errc::kTimeout);
  EXPECT_ERRC(*outcomes_[b], Errc::kTimeout);
}

TEST_F(ChangeBatcherTest, NoChangeWaitsLongForChangesUnderWay) {
  fill();
  change("a");
  pass(milliseconds(4));
  EXPECT_EQ(requests_.size(), 2U);
  pass(milliseconds(2));
  ASSERT_EQ(requests_.size(), 3U);
  EXPECT_EQ(texts(2), std::vector<std::string>{"a"});
}

TEST_F(ChangeBatcherTest, ChangesThatHaveWaitedLongGoTogether) {
  fill();
  change("a");
  pass(milliseconds(1));
  change("b");
  change("c");
  pass(milliseconds(4));
  ASSERT_EQ(requests_.size(), 3U);
  EXPECT_EQ(texts(2), (std::vector<std::string>{"a", "b", "c"}));
  change("d");
  pass(milliseconds(5));
  ASSERT_EQ(requests_.size(), 4U);
  EXPECT_EQ(texts(3), std::vector<std::string>{"d"});
}

TEST_F(ChangeBatcherTest, WhileAnswersComeChangesWaitForTheirTurn) {
  fill();
  for (int i = 0; i < 64; ++i) change("early");
  change("late");
  pass(milliseconds(4));
  answer(0);  // makes room for the first 32
  ASSERT_EQ(requests_.size(), 3U);
  pass(milliseconds(4));
  EXPECT_EQ(requests_.size(), 3U);
  answer(1);
  ASSERT_EQ(requests_.size(), 4U);
  pass(milliseconds(4));
  EXPECT_EQ(requests_.size(), 4U) << "the last one has waited for 12 ms, but the server answers";
  answer(2);
  ASSERT_EQ(requests_.size(), 5U);
  EXPECT_EQ(texts(4), std::vector<std::string>{"late"});
}

TEST_F(ChangeBatcherTest, AChangeWhoseDeadlineComesWhileItWaitsIsSentWithIt) {
  fill();
  const MonoTime soon = clock_.now() + milliseconds(3);
  change("a", Limits{soon, {}, {}, 0, {}, {}});
  pass(milliseconds(3));
  ASSERT_EQ(requests_.size(), 3U);
  EXPECT_EQ(texts(2), std::vector<std::string>{"a"});
  EXPECT_EQ(requests_[2]->limits.deadline, soon);
}

TEST_F(ChangeBatcherTest, ACallerThatGivesUpLeavesTheOthers) {
  fill();
  job::StopSource stop;
  Limits limits{MonoTime::never(), job::StopToken(stop), {}, 0, {}, {}};
  const std::size_t given_up = change("a", limits);
  const std::size_t b = change("b");
  answer(0);
  ASSERT_EQ(texts(2).size(), 2U);
  stop.request_stop(Errc::kCancelled);
  settle();
  EXPECT_ERRC(*outcomes_[given_up], Errc::kCancelled);
  EXPECT_EQ(outcomes_[b], std::nullopt);
  answer(2);
  EXPECT_EQ(outcomes_[b]->value(), "b");
}

TEST_F(ChangeBatcherTest, ChangesWithOtherDeadlinesDoNotGoTogether) {
  const auto until = [this](Duration span) { return Limits{clock_.now() + span, {}, {}, 0, {}, {}}; };
  fill();
  change("soon", until(seconds(10)));
  change("soon too", until(milliseconds(10'999)));
  change("later", until(seconds(11)));
  change("never");
  answer(0);
  EXPECT_EQ(texts(2), (std::vector<std::string>{"soon", "soon too"}));
  EXPECT_EQ(requests_[2]->limits.deadline, clock_.now() + milliseconds(10'999));
  answer(1);
  EXPECT_EQ(texts(3), std::vector<std::string>{"later"});
  answer(2);
  EXPECT_EQ(texts(4), std::vector<std::string>{"never"});
}

TEST_F(ChangeBatcherTest, AStopEndsRequestsUnderWay) {
  fill();
  const std::size_t a = change("a");
  const std::size_t b = change("b");
  answer(0);
  stopping_.request_stop(Errc::kCancelled);
  settle();
  EXPECT_ERRC(*outcomes_[a], Errc::kCancelled);
  EXPECT_ERRC(*outcomes_[b], Errc::kCancelled);
}

TEST_F(ChangeBatcherTest, AChangeWhoseCallerGivesUpBeforeItIsSentIsNotSent) {
  fill();
  job::StopSource stop;
  const std::size_t given_up = change("a", {MonoTime::never(), job::StopToken(stop), {}, 0, {}, {}});
  stop.request_stop(Errc::kCancelled);
  settle();
  EXPECT_ERRC(*outcomes_[given_up], Errc::kCancelled);
  answer(0);
  EXPECT_EQ(requests_.size(), 2U);
}

TEST_F(ChangeBatcherTest, ChangesOfTwoEpochsDoNotGoTogether) {
  const auto in = [](std::uint32_t epoch) {
    return Limits{MonoTime::never(), {}, {}, 0, rpc::SessionEpoch{ClientId(9), epoch}, {}};
  };
  fill();
  change("old", in(1));
  const std::size_t any = change("any");
  change("new", in(2));
  answer(0);
  EXPECT_EQ(texts(2), (std::vector<std::string>{"old", "any"}));
  ASSERT_NE(requests_[2]->limits.only_in, std::nullopt);
  EXPECT_EQ(requests_[2]->limits.only_in->epoch, 1U);
  answer(1);
  EXPECT_EQ(texts(3), std::vector<std::string>{"new"});
  answer(2, Errc::kSessionFenced);
  EXPECT_ERRC(*outcomes_[2], Errc::kSessionFenced);
  ASSERT_EQ(requests_.size(), 5U) << "what is good in any epoch is sent in the next one";
  answer(4);
  EXPECT_EQ(outcomes_[any]->value(), "any");
}

TEST_F(ChangeBatcherTest, TheServersReplyIsChecked) {
  fill();
  const std::size_t a = change("a");
  const std::size_t b = change("b");
  features_ = wire::kFeatureLeases | wire::kFeatureGrants;  // the answer has no grants
  answer(0);
  answer(2);
  EXPECT_ERRC(*outcomes_[a], Errc::kProtocol);
  EXPECT_ERRC(*outcomes_[b], Errc::kProtocol);
}

TEST_F(ChangeBatcherTest, OpensForReadingAreTaken) {
  const auto taken = [](std::uint8_t flags, bool renew) {
    wire::OpenRequest request;
    request.open_flags = flags;
    request.renew = renew;
    Bytes body;
    wire::encode_body(request, body);
    return ChangeBatcher::takes(wire::Op::kOpen, body, {});
  };
  EXPECT_TRUE(taken(wire::kOpenRead, false));
  EXPECT_TRUE(taken(wire::kOpenRead | wire::kOpenUncounted, false));
  EXPECT_TRUE(taken(wire::kOpenRead | wire::kOpenUncounted | wire::kOpenNotesRead, false));
  EXPECT_FALSE(taken(wire::kOpenRead, true));
  EXPECT_FALSE(taken(wire::kOpenRead | wire::kOpenWrite, false));
  EXPECT_FALSE(taken(wire::kOpenRead | wire::kOpenTruncate, false));
  EXPECT_FALSE(ChangeBatcher::takes(wire::Op::kOpen, {}, {}));
}

TEST_F(ChangeBatcherTest, LargeChangesAndThoseOfLockedDataAreNotTaken) {
  EXPECT_TRUE(ChangeBatcher::takes(wire::Op::kUnlink, Bytes(4096), {}));
  EXPECT_FALSE(ChangeBatcher::takes(wire::Op::kUnlink, Bytes(4097), {}));
  EXPECT_FALSE(ChangeBatcher::takes(wire::Op::kRename, {}, {}));
  EXPECT_FALSE(ChangeBatcher::takes(wire::Op::kTruncate, {}, {}));
  Limits data;
  data.data_of = Handle(5);
  EXPECT_FALSE(ChangeBatcher::takes(wire::Op::kClose, {}, data));
}

}  // namespace
}  // namespace spate::client
