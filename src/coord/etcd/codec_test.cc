// SPDX-License-Identifier: Apache-2.0
#include "coord/etcd/codec.h"

#include "base/expect.h"

namespace spate::coord {
namespace {

TEST(EtcdBase64, DecodeReversesEncodeForAllLengths) {
  Bytes bytes;
  for (int i = 0; i < 40; ++i) {
    const auto back = from_base64(base64(bytes));
    ASSERT_OK(back);
    EXPECT_EQ(*back, bytes);
    bytes.push_back(static_cast<std::byte>(i * 37 + 200));
  }
}

TEST(EtcdBase64, MatchesTheStandardEncoding) {
  EXPECT_EQ(base64(as_bytes("any carnal pleas")), "YW55IGNhcm5hbCBwbGVhcw==");
  EXPECT_ERRC(from_base64("YW5"), Errc::kProtocol);
  EXPECT_ERRC(from_base64("YW5*"), Errc::kProtocol);
}

TEST(EtcdCodec, AnswerToARangeHoldsRecordsWithoutThePrefix) {
  const auto answer =
      range_answer("/spate/", R"({"header":{"revision":"9"},"kvs":[{"key":")" + base64(as_bytes("/spate/group/1")) +
                                  R"(","mod_revision":"7","value":"AQI="},{"key":")" +
                                  base64(as_bytes("/spate/group/2")) + R"(","mod_revision":"8"}]})");
  ASSERT_OK(answer);
  EXPECT_EQ(answer->revision, 9U);
  ASSERT_EQ(answer->records.size(), 2U);
  EXPECT_EQ(answer->records[0].key, "group/1");
  EXPECT_EQ(answer->records[0].revision, 7U);
  EXPECT_EQ(answer->records[0].value.size(), 2U);
  EXPECT_EQ(as_text(answer->records[1].value), "");
}

TEST(EtcdCodec, InvalidAnswersAreRefused) {
  EXPECT_ERRC(range_answer("/spate/", "{}"), Errc::kProtocol);
  EXPECT_ERRC(range_answer("/spate/", R"({"header":{"revision":"-1"}})"), Errc::kProtocol);
  EXPECT_ERRC(range_answer("/spate/", R"({"header":{"revision":"1"},"kvs":[{"key":"eA==","mod_revision":"1"}]})"),
              Errc::kProtocol);
  for (const char* text : {"", "no", "[]", "7", "{\"header\":3}", R"({"header":{"revision":5}})", R"({"header":[]})"}) {
    EXPECT_ERRC(txn_answer(text), Errc::kProtocol) << text;
    EXPECT_ERRC(range_answer("/", text), Errc::kProtocol) << text;
  }
  EXPECT_ERRC(range_answer("/", R"({"header":{"revision":"1"},"kvs":[3]})"), Errc::kProtocol);
  EXPECT_ERRC(range_answer("/", R"({"header":{"revision":"1"},"kvs":{}})"), Errc::kProtocol);
}

TEST(EtcdCodec, RequestsThatChangeTheMembers) {
  EXPECT_EQ(add_member_request("https://[::1]:7403"), R"({"isLearner":true,"peerURLs":["https://[::1]:7403"]})");
  EXPECT_EQ(member_request(18446744073709551615U), R"({"ID":"18446744073709551615"})");
}

TEST(EtcdCodec, MembersOfTheCluster) {
  const auto voters = members_answer(R"({"header":{"revision":"3"},"members":[
      {"ID":"7","name":"etcd-1","peerURLs":["https://a:2"],"clientURLs":["https://a:1"]},
      {"ID":"9","peerURLs":["https://b:2"],"isLearner":true}]})");
  ASSERT_OK(voters);
  const std::vector<Voter> expected{{7, "etcd-1", "https://a:2", "https://a:1", false},
                                    {9, "", "https://b:2", "", true}};
  EXPECT_EQ(*voters, expected);
  for (const char* text : {"", "{}", R"({"members":3})", R"({"members":[3]})", R"({"members":[{"ID":"x"}]})"})
    EXPECT_ERRC(members_answer(text), Errc::kProtocol) << text;
}

TEST(EtcdCodec, AMemberWithoutALeaderHasNoContact) {
  EXPECT_OK(status_answer(R"({"header":{"revision":"3"},"version":"3.4.23","leader":"18446744073709551615"})"));
  EXPECT_ERRC(status_answer(R"({"header":{"revision":"3"},"version":"3.4.23"})"), Errc::kTryAgain);
  for (const char* text : {"", "{}", R"({"header":{"revision":"3"},"leader":"x"})"})
    EXPECT_ERRC(status_answer(text), Errc::kProtocol) << text;
}

TEST(EtcdCodec, DeeplyNestedAnswerIsRefused) { EXPECT_ERRC(txn_answer(std::string(100'000, '[')), Errc::kProtocol); }

TEST(EtcdCodec, TransactionThatDidNotSucceedIsAConflict) {
  EXPECT_ERRC(txn_answer(R"({"header":{"revision":"9"}})"), Errc::kConflict);
  const auto made = txn_answer(R"({"header":{"revision":"9"},"succeeded":true})");
  ASSERT_OK(made);
  EXPECT_EQ(*made, 9U);
}

}  // namespace
}  // namespace spate::coord
