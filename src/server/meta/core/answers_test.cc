// SPDX-License-Identifier: Apache-2.0
// Requests that are sent again: after their answer, while they run, after a conflict, a failure, a restart.
#include <optional>

#include "base/expect.h"
#include "server/meta/testing/role_test.h"

namespace spate::meta {
namespace {

class MetaAnswers : public RoleTest {
 protected:
  static wire::MkdirRequest mkdir(std::string path) {
    wire::MkdirRequest request;
    request.where = at(std::move(path));
    request.attributes.mode = 0755;
    return request;
  }
  static wire::RmdirRequest rmdir(std::string path) {
    wire::RmdirRequest request;
    request.where = at(std::move(path));
    return request;
  }
  TestClient client = connect();
};

TEST_F(MetaAnswers, AnAnsweredRequestIsNotRunAgain) {
  const auto first = asked<wire::ObjectReply>(client, mkdir("d"), id(1));
  ASSERT_OK(first);
  const auto again = asked<wire::ObjectReply>(client, mkdir("d"), id(1));
  ASSERT_OK(again);
  EXPECT_EQ(again->attributes, first->attributes);
  EXPECT_ERRC(asked<wire::ObjectReply>(client, mkdir("d"), id(2)), Errc::kExists);
  ASSERT_OK(asked<wire::Empty>(client, rmdir("d"), id(3)));
  EXPECT_ERRC(asked<wire::ObjectReply>(client, mkdir("d"), id(2)), Errc::kForgottenRequest);
  EXPECT_ERRC(stat(client, "d"), Errc::kNotFound);
}

TEST_F(MetaAnswers, SlotsAndClientsAreApart) {
  TestClient other = connect();
  ASSERT_OK(asked<wire::ObjectReply>(client, mkdir("a"), id(5, 0)));
  ASSERT_OK(asked<wire::ObjectReply>(client, mkdir("b"), id(1, 1)));
  ASSERT_OK(asked<wire::ObjectReply>(other, mkdir("c"), id(1, 0)));
  EXPECT_OK(asked<wire::ObjectReply>(client, mkdir("a"), id(5, 0)));
  EXPECT_ERRC(asked<wire::ObjectReply>(client, mkdir("a"), id(1, 2)), Errc::kExists);
}

TEST_F(MetaAnswers, ARequestWithoutSlotRunsAgain) {
  ASSERT_OK(asked<wire::ObjectReply>(client, mkdir("d"), no_id()));
  EXPECT_ERRC(asked<wire::ObjectReply>(client, mkdir("d"), no_id()), Errc::kExists);
  EXPECT_EQ(records(KeyKind::kAnswer), 0U);
}

TEST_F(MetaAnswers, SlotsThatWereNotGivenAreRefused) {
  EXPECT_ERRC(asked<wire::ObjectReply>(client, mkdir("d"), id(1, options.answer_slots)), Errc::kInvalidArgument);
  EXPECT_ERRC(stat(client, "d"), Errc::kNotFound);
}

TEST_F(MetaAnswers, OneIdForTwoRequestsIsRefused) {
  ASSERT_OK(asked<wire::ObjectReply>(client, mkdir("d"), id(1)));
  EXPECT_ERRC(asked<wire::Empty>(client, rmdir("d"), id(1)), Errc::kProtocol);
  EXPECT_OK(stat(client, "d"));
}

TEST_F(MetaAnswers, AResendWaitsForTheRequestThatIsUnderWay) {
  const Handle handle = make_file(client, "f", 100);
  io.hold();
  const auto first = begin<wire::ObjectReply>(client, truncate_request("f", 10), id(50));
  const auto again = begin<wire::ObjectReply>(client, truncate_request("f", 10), id(50));
  EXPECT_EQ(first->result, std::nullopt);
  EXPECT_EQ(again->result, std::nullopt);
  io.release();
  run_ready();
  ASSERT_OK(first->result);
  ASSERT_OK(again->result);
  EXPECT_EQ(io.calls("truncate"), 1U);
  EXPECT_EQ(data_of(handle).size, 10U);
}

TEST_F(MetaAnswers, OverlapInAnotherSlotDoesNotWait) {
  make_file(client, "f", 100);
  io.hold();
  const auto slow = begin<wire::ObjectReply>(client, truncate_request("f", 10), id(50));
  const auto quick = begin<wire::ObjectReply>(client, mkdir("d"), id(1, 1));
  EXPECT_OK(quick->result);
  EXPECT_EQ(slow->result, std::nullopt);
  io.release();
  run_ready();
}

TEST_F(MetaAnswers, SurviveTheServer) {
  ASSERT_OK(asked<wire::ObjectReply>(client, mkdir("d"), id(7)));
  EXPECT_ERRC(asked<wire::ObjectReply>(client, mkdir("d"), id(3, 1)), Errc::kExists);
  restart();
  ASSERT_OK(join(client));
  EXPECT_OK(asked<wire::ObjectReply>(client, mkdir("d"), id(7)));
  ASSERT_OK(asked<wire::Empty>(client, rmdir("d"), id(1, 2)));
  EXPECT_ERRC(asked<wire::ObjectReply>(client, mkdir("d"), id(3, 1)), Errc::kExists);
  EXPECT_ERRC(asked<wire::ObjectReply>(client, mkdir("d"), id(6)), Errc::kForgottenRequest);
  EXPECT_ERRC(stat(client, "d"), Errc::kNotFound);
}

TEST_F(MetaAnswers, AConflictLeavesNoFalseAnswer) {
  int conflicts = 3;
  store.on_commit = [&conflicts] { return conflicts-- > 0 ? Errc::kConflict : Errc::kOk; };
  ASSERT_OK(asked<wire::ObjectReply>(client, mkdir("d"), id(1)));
  EXPECT_OK(asked<wire::ObjectReply>(client, mkdir("d"), id(1)));
  EXPECT_OK(stat(client, "d"));
}

TEST_F(MetaAnswers, ACommitThatFailedIsNoAnswer) {
  store.on_commit = [] { return Errc::kIoError; };
  EXPECT_ERRC(asked<wire::ObjectReply>(client, mkdir("d"), id(1)), Errc::kIoError);
  store.on_commit = {};
  EXPECT_ERRC(stat(client, "d"), Errc::kNotFound);
  EXPECT_OK(asked<wire::ObjectReply>(client, mkdir("d"), id(1)));
  EXPECT_OK(stat(client, "d"));
}

TEST_F(MetaAnswers, ACommitThatFailedButTookEffectIsAnswered) {
  trove::KeyvalFault fault;
  fault.status = Errc::kIoError;
  fault.takes_effect = true;
  faults.order(fault);
  EXPECT_ERRC(asked<wire::ObjectReply>(client, mkdir("d"), id(1)), Errc::kIoError);
  EXPECT_OK(asked<wire::ObjectReply>(client, mkdir("d"), id(1)));
}

// The first answer was not sent, since the open was not durable. The resend must wait for durability, too.
TEST_F(MetaAnswers, AResentOpenIsDurableBeforeItIsAnswered) {
  make_file(client, "f", 10);
  store.on_sync = [] { return Errc::kIoError; };
  const auto opening = open_request("f", wire::kOpenWrite);
  EXPECT_ERRC(asked<wire::OpenReply>(client, opening, id(1, 1)), Errc::kIoError);
  EXPECT_ERRC(asked<wire::OpenReply>(client, opening, id(1, 1)), Errc::kIoError);
  store.on_sync = {};
  EXPECT_OK(asked<wire::OpenReply>(client, opening, id(1, 1)));
  EXPECT_EQ(store.unsynced(), 0U);
  EXPECT_EQ(records(KeyKind::kOpen), 1U);
}

TEST_F(MetaAnswers, EachSlotKeepsOneAnswer) {
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    ASSERT_OK(asked<wire::ObjectReply>(client, mkdir(std::to_string(i)), id(i, static_cast<std::uint16_t>(i % 7))));
  }
  EXPECT_EQ(records(KeyKind::kAnswer), 7U);
  EXPECT_EQ(role->answers().size(), 1U);
}

TEST_F(MetaAnswers, ANewRequestCostsNoReadForItsAnswer) {
  ASSERT_OK(asked<wire::ObjectReply>(client, mkdir("d"), id(1)));
  const std::size_t before = store.gets;
  ASSERT_OK(asked<wire::ObjectReply>(client, mkdir("e"), id(2)));
  const std::size_t with_slot = store.gets - before;
  ASSERT_OK(asked<wire::ObjectReply>(client, mkdir("f"), no_id()));
  EXPECT_EQ(store.gets - before - with_slot, with_slot);
}

TEST_F(MetaAnswers, EndWithTheSession) {
  for (std::uint16_t slot = 0; slot < 100; ++slot) {
    ASSERT_OK(asked<wire::ObjectReply>(client, mkdir("d" + std::to_string(slot)), id(1, slot)));
  }
  TestClient other = connect();
  ASSERT_OK(asked<wire::ObjectReply>(other, mkdir("kept"), id(1)));
  ASSERT_OK(asked<wire::Empty>(client, wire::EndSessionRequest(), no_id()));
  run_ready();
  EXPECT_EQ(records(KeyKind::kAnswer), 1U);
  EXPECT_EQ(role->answers().size(), 1U);
  EXPECT_ERRC(asked<wire::ObjectReply>(client, mkdir("d0"), id(1)), Errc::kSessionUnknown);
  EXPECT_OK(asked<wire::ObjectReply>(other, mkdir("kept"), id(1)));
}

TEST_F(MetaAnswers, ARequestUnderWayEndsBeforeTheAnswersAreDropped) {
  make_file(client, "f", 100);
  io.hold();
  const auto slow = begin<wire::ObjectReply>(client, truncate_request("f", 10), id(50));
  const auto resent = begin<wire::ObjectReply>(client, truncate_request("f", 10), id(50));
  ASSERT_OK(asked<wire::Empty>(client, wire::EndSessionRequest(), no_id()));
  run_ready();
  EXPECT_EQ(records(KeyKind::kSession), 1U);
  io.release();
  run_ready();
  EXPECT_OK(slow->result);
  ASSERT_NE(resent->result, std::nullopt);
  EXPECT_ERRC(*resent->result, Errc::kSessionUnknown);
  EXPECT_EQ(records(KeyKind::kSession), 0U);
  EXPECT_EQ(records(KeyKind::kAnswer), 0U);
}

}  // namespace
}  // namespace spate::meta
