// SPDX-License-Identifier: Apache-2.0
// Truncations that an io server refuses, at once or for a long time: the server gives them up and reports that to the
// request.
#include <optional>

#include "server/meta/testing/audit_test.h"
#include "server/meta/testing/role_test.h"

namespace spate::meta {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::uint64_t kTooMuch = 900ULL << 40U;

class MetaRefusals : public RoleTest {
 protected:
  /// From now on io servers answer all truncations, or the next `times`, with this code.
  void refuse(Errc code, std::size_t times = SIZE_MAX) {
    io.fail = [code, left = times](std::string_view call) mutable {
      if (!call.starts_with("truncate") || left == 0) return Errc::kOk;
      --left;
      return code;
    };
  }
  std::unique_ptr<Pending<wire::ObjectReply>> begin_truncate(std::uint64_t size, wire::RequestId request_id) {
    return begin<wire::ObjectReply>(client, truncate_request("f", size), request_id, hours(24));
  }
  void expect_free(Handle file) {
    EXPECT_EQ(records(KeyKind::kTruncate), 0U);
    EXPECT_FALSE(inode(file).truncating) << "the truncation has not ended";
    EXPECT_OK(truncate(other, "f", 7));
    EXPECT_EQ(data_of(file).size, 7U);
    EXPECT_EQ(stat(other, "f")->size, 7U);
    Audit(*this).check_at_rest();
  }

  TestClient client = connect();
  TestClient other = connect();
};

TEST_F(MetaRefusals, AFileThatWouldBeTooLargeStaysAsItIs) {
  const Handle file = make_file(client, "f", 100);
  refuse(Errc::kFileTooBig, 1);
  const MonoTime before = clock.now();
  EXPECT_ERRC(truncate(client, "f", kTooMuch), Errc::kFileTooBig);
  EXPECT_LT(clock.now() - before, seconds(1)) << "it was tried again and again";
  wait(seconds(1));
  EXPECT_EQ(stat(other, "f")->size, 100U);
  EXPECT_EQ(data_of(file).size, 100U);
  expect_free(file);
}

TEST_F(MetaRefusals, AResentRequestGetsTheSameRefusal) {
  make_file(client, "f", 100);
  refuse(Errc::kFileTooBig, 1);
  for (int i = 0; i < 2; ++i) {
    EXPECT_ERRC(asked<wire::ObjectReply>(client, truncate_request("f", kTooMuch), id(50, 1)), Errc::kFileTooBig);
  }
}

TEST_F(MetaRefusals, AResentRequestGetsTheSameRefusalAfterARestart) {
  const Handle file = make_file(client, "f", 100);
  io.hold();
  {
    auto pending = begin<wire::ObjectReply>(client, truncate_request("f", kTooMuch), id(50, 1), seconds(1));
    wait(seconds(2));
    ASSERT_NE(pending->result, std::nullopt);
  }
  restart();
  ASSERT_OK(join(client));
  ASSERT_OK(join(other));
  refuse(Errc::kFileTooBig, 1);
  io.release();
  EXPECT_ERRC(asked<wire::ObjectReply>(client, truncate_request("f", kTooMuch), id(50, 1)), Errc::kFileTooBig);
  expect_free(file);
}

TEST_F(MetaRefusals, AnIntentThatIsRefusedForLongIsGivenUp) {
  for (const Errc code : {Errc::kIoError, Errc::kNoSpace, Errc::kReadOnly}) {
    const Handle file = make_file(client, "f", 100);
    refuse(code);
    auto pending = begin_truncate(10, id(++client.next));
    auto later = begin<wire::OpenReply>(other, open_request("f", wire::kOpenRead), id(++other.next), hours(1));
    EXPECT_EQ(pending->result, std::nullopt);
    EXPECT_EQ(later->result, std::nullopt) << "an open does not wait for the truncation";
    wait(seconds(25));
    ASSERT_NE(pending->result, std::nullopt) << "it is tried for ever";
    EXPECT_EQ(pending->result->code(), code);
    ASSERT_NE(later->result, std::nullopt);
    EXPECT_OK(*later->result) << "the file is blocked";
    EXPECT_OK(close_file(other, file, Rights::kRead));
    EXPECT_EQ(stat(other, "f")->size, 100U) << "the size is not what the datafiles say";
    io.fail = {};
    expect_free(file);
    ASSERT_OK(unlink(client, "f"));
    wait(seconds(1));
  }
}

TEST_F(MetaRefusals, AnOpenThatCannotTruncateLeavesNothingOpen) {
  const Handle file = make_file(client, "f", 100);
  refuse(Errc::kIoError);
  auto pending =
      begin<wire::OpenReply>(client, open_request("f", kRW | wire::kOpenTruncate), id(++client.next), hours(1));
  wait(seconds(25));
  ASSERT_NE(pending->result, std::nullopt);
  EXPECT_ERRC(*pending->result, Errc::kIoError);
  EXPECT_EQ(records(KeyKind::kOpen), 0U);
  EXPECT_EQ(inode(file).write_opens, 0U);
  io.fail = {};
  expect_free(file);
}

TEST_F(MetaRefusals, AServerThatIsAwayOrBusyHasNotRefused) {
  const Handle file = make_file(client, "f", 100);
  for (const Errc code : {Errc::kUnreachable, Errc::kTimeout, Errc::kBusy}) {
    refuse(code);
    auto pending = begin_truncate(10, id(++client.next));
    for (int i = 0; i < 30; ++i) {
      wait(seconds(5));
      ASSERT_OK(keep_alive(client));
      ASSERT_OK(keep_alive(other));
    }
    EXPECT_EQ(pending->result, std::nullopt);
    io.fail = {};
    wait(seconds(10));
    ASSERT_NE(pending->result, std::nullopt);
    EXPECT_OK(*pending->result);
  }
  expect_free(file);
}

TEST_F(MetaRefusals, AWriterKeepsWhatItWroteWhileTheFileWasToGrow) {
  const Handle file = make_file(client, "f", 100);
  ASSERT_OK(open_file(other, "f", wire::kOpenWrite));
  refuse(Errc::kFileTooBig, 1);
  ASSERT_TRUE(write(other, file, 5000));
  EXPECT_ERRC(truncate(client, "f", kTooMuch), Errc::kFileTooBig);
  EXPECT_EQ(data_of(file).size, 5000U);
  ASSERT_OK(close_file(other, file, Rights::kWrite));
  wait(seconds(1));
  EXPECT_EQ(stat(client, "f")->size, 5000U);
}

}  // namespace
}  // namespace spate::meta
