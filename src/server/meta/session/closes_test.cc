// SPDX-License-Identifier: Apache-2.0
// Closes: which sizes and times a close leaves behind.
#include <optional>

#include "base/expect.h"
#include "server/meta/testing/role_test.h"

namespace spate::meta {
namespace {

using std::chrono::seconds;

class MetaCloses : public RoleTest {
 protected:
  TestClient client = connect();
  TestClient other = connect();
};

TEST_F(MetaCloses, TheOnlyWritersSizeIsAccepted) {
  const Handle handle = create(client, "f", wire::kOpenWrite)->object.attributes.handle;
  ASSERT_TRUE(write(client, handle, 100));
  EXPECT_FALSE(knows_size(*stat(other, "f")));
  wait(seconds(1));
  const auto closed = close_file(client, handle, Rights::kWrite, data_of(handle));
  ASSERT_OK(closed);
  EXPECT_TRUE(knows_size(closed->attributes));
  EXPECT_EQ(closed->attributes.size, 100U);
  EXPECT_EQ(closed->attributes.mtime, data_of(handle).mtime);
  EXPECT_EQ(closed->attributes.change_sum, 1U);
  EXPECT_EQ(closed->attributes.allocated_bytes, 100U);
  EXPECT_EQ(io.calls("stat"), 0U);
  EXPECT_EQ(records(KeyKind::kUnsettled), 0U);
}

TEST_F(MetaCloses, TheSizeOfOneOfSeveralWritersIsIgnored) {
  const Handle handle = create(client, "f", wire::kOpenWrite)->object.attributes.handle;
  ASSERT_OK(open_file(other, "f", wire::kOpenWrite));
  ASSERT_TRUE(write(client, handle, 100));
  const wire::DataSummary early = data_of(handle);
  ASSERT_TRUE(write(other, handle, 900));
  ASSERT_OK(close_file(other, handle, Rights::kWrite, data_of(handle)));
  EXPECT_FALSE(knows_size(*stat(client, "f")));
  ASSERT_OK(close_file(client, handle, Rights::kWrite, early));
  run_ready();
  EXPECT_EQ(io.calls("stat"), 1U);
  EXPECT_TRUE(knows_size(*stat(client, "f")));
  EXPECT_EQ(stat(client, "f")->size, 900U);
  EXPECT_EQ(records(KeyKind::kUnsettled), 0U);
}

TEST_F(MetaCloses, TheSizeOfAWriterWithTwoOpensIsIgnored) {
  const Handle handle = create(client, "f", wire::kOpenWrite)->object.attributes.handle;
  ASSERT_OK(open_file(client, "f", wire::kOpenWrite));
  ASSERT_TRUE(write(client, handle, 900));
  ASSERT_OK(close_file(client, handle, Rights::kWrite, wire::DataSummary{}));
  ASSERT_OK(close_file(client, handle, Rights::kWrite, wire::DataSummary{}));
  run_ready();
  EXPECT_EQ(stat(client, "f")->size, 900U);
}

TEST_F(MetaCloses, AfterACloseWithoutASizeTheDatafilesAreAsked) {
  const Handle handle = create(client, "f", wire::kOpenWrite)->object.attributes.handle;
  ASSERT_TRUE(write(client, handle, 100));
  ASSERT_OK(close_file(client, handle, Rights::kWrite));
  run_ready();
  EXPECT_EQ(stat(client, "f")->size, 100U);
  EXPECT_EQ(stat(client, "f")->mtime, data_of(handle).mtime);
}

TEST_F(MetaCloses, AnImpossibleSizeIsIgnored) {
  const Handle handle = create(client, "f", wire::kOpenWrite)->object.attributes.handle;
  wire::DataSummary absurd;
  absurd.size = kMaxFileBytes + 1;
  ASSERT_OK(close_file(client, handle, Rights::kWrite, absurd));
  run_ready();
  EXPECT_EQ(stat(client, "f")->size, 0U);
}

TEST_F(MetaCloses, TheDatafilesAreAskedUntilTheyAnswer) {
  const Handle handle = create(client, "f", wire::kOpenWrite)->object.attributes.handle;
  ASSERT_TRUE(write(client, handle, 100));
  io.fail = [](std::string_view) { return Errc::kUnreachable; };
  ASSERT_OK(close_file(client, handle, Rights::kWrite));
  wait(seconds(2));
  EXPECT_FALSE(knows_size(*stat(client, "f")));
  restart();
  ASSERT_OK(join(client));
  EXPECT_FALSE(knows_size(*stat(client, "f")));
  io.fail = {};
  wait_alive(client, seconds(10));
  EXPECT_EQ(stat(client, "f")->size, 100U);
  EXPECT_TRUE(knows_size(*stat(client, "f")));
}

TEST_F(MetaCloses, AnAnswerThatWasOvertakenByAWriterIsDropped) {
  const Handle handle = create(client, "f", wire::kOpenWrite)->object.attributes.handle;
  ASSERT_TRUE(write(client, handle, 100));
  io.hold();
  ASSERT_OK(close_file(client, handle, Rights::kWrite));
  run_ready();
  ASSERT_EQ(io.calls("stat"), 1U);
  ASSERT_OK(open_file(other, "f", wire::kOpenWrite));
  io.release();
  run_ready();
  EXPECT_FALSE(knows_size(*stat(client, "f")));
  ASSERT_TRUE(write(other, handle, 300));
  ASSERT_OK(close_file(other, handle, Rights::kWrite, data_of(handle)));
  EXPECT_EQ(stat(client, "f")->size, 300U);
  run_ready();
  EXPECT_EQ(records(KeyKind::kUnsettled), 0U);
}

// Another client opened, wrote and closed the file while the io servers were being asked, so their answer is out of
// date.
TEST_F(MetaCloses, AnAnswerFromBeforeAnotherWriterIsDropped) {
  for (const bool believed : {true, false}) {
    const std::string path = believed ? "believed" : "asked";
    const Handle handle = create(client, path, wire::kOpenWrite)->object.attributes.handle;
    ASSERT_TRUE(write(client, handle, 100)) << path;
    io.hold();
    ASSERT_OK(close_file(client, handle, Rights::kWrite));
    run_ready();
    ASSERT_OK(open_file(other, path, wire::kOpenWrite));
    ASSERT_TRUE(write(other, handle, 500)) << path;
    std::optional<wire::DataSummary> data;
    if (believed) data = data_of(handle);
    ASSERT_OK(close_file(other, handle, Rights::kWrite, data));
    io.release();
    run_ready();
    EXPECT_EQ(stat(client, path)->size, 500U);
    EXPECT_TRUE(knows_size(*stat(client, path))) << path;
    EXPECT_EQ(records(KeyKind::kUnsettled), 0U);
  }
}

TEST_F(MetaCloses, ASetTimeHoldsUntilALaterWrite) {
  const Handle handle = create(client, "f", wire::kOpenWrite)->object.attributes.handle;
  ASSERT_TRUE(write(client, handle, 100));
  wire::SetattrRequest request;
  request.where = at("f");
  request.mtime = WallTime{77};
  request.data = data_of(handle);
  ASSERT_OK(asked<wire::ObjectReply>(client, request));
  ASSERT_OK(close_file(client, handle, Rights::kWrite, data_of(handle)));
  EXPECT_EQ(stat(client, "f")->mtime, WallTime{77});

  ASSERT_OK(open_file(client, "f", wire::kOpenWrite));
  // The close reports no size: the datafiles are asked, and agree.
  ASSERT_OK(close_file(client, handle, Rights::kWrite));
  run_ready();
  EXPECT_EQ(stat(client, "f")->mtime, WallTime{77});

  ASSERT_OK(open_file(client, "f", wire::kOpenWrite));
  request.data = data_of(handle);
  ASSERT_OK(asked<wire::ObjectReply>(client, request));
  wait(seconds(1));
  ASSERT_TRUE(write(client, handle, 100));
  ASSERT_OK(close_file(client, handle, Rights::kWrite, data_of(handle)));
  EXPECT_EQ(stat(client, "f")->mtime, data_of(handle).mtime);
}

TEST_F(MetaCloses, TimesGivenWithTheCloseWin) {
  for (const bool known : {true, false}) {
    const std::string path = known ? "known" : "asked";
    const Handle handle = create(client, path, wire::kOpenWrite)->object.attributes.handle;
    ASSERT_TRUE(write(client, handle, 100)) << path;
    wire::CloseRequest request = close_request(handle, Rights::kWrite);
    if (known) request.data = data_of(handle);
    request.mtime = WallTime{77};
    request.atime = WallTime{78};
    request.mode = 0600;
    ASSERT_OK(asked<wire::CloseReply>(client, request));
    run_ready();
    const auto a = stat(client, path);
    EXPECT_TRUE(knows_size(*a)) << path;
    EXPECT_EQ(a->size, 100U);
    EXPECT_EQ(a->mtime, WallTime{77});
    EXPECT_EQ(a->atime, WallTime{78});
    EXPECT_EQ(a->mode, 0600U);
    EXPECT_EQ(a->change_sum, data_of(handle).change_sum);
    EXPECT_FALSE(inode(handle).keep_mtime) << path;
  }
}

TEST_F(MetaCloses, ATimeGivenWithTheCloseIsNotForgottenByTheNextWriter) {
  const Handle handle = create(client, "f", wire::kOpenWrite)->object.attributes.handle;
  ASSERT_TRUE(write(client, handle, 100));
  io.hold();
  wire::CloseRequest request = close_request(handle, Rights::kWrite);
  request.mtime = WallTime{77};
  ASSERT_OK(asked<wire::CloseReply>(client, request));
  const auto opening = begin<wire::OpenReply>(other, open_request("f", wire::kOpenWrite), id(++other.next));
  EXPECT_EQ(opening->result, std::nullopt);
  io.release();
  run_ready();
  ASSERT_OK(opening->result);
  ASSERT_OK(close_file(other, handle, Rights::kWrite));
  run_ready();
  EXPECT_EQ(stat(client, "f")->mtime, WallTime{77});
}

TEST_F(MetaCloses, ACloseReportsWhenTheFileWasRead) {
  const Handle handle = create(client, "f", 0, 0644)->object.attributes.handle;
  const Attributes before = *stat(client, "f");
  TestClient bobs = connect(bob());
  const auto read_at = [&](std::int64_t ns) {
    EXPECT_OK(open_file(bobs, "f", wire::kOpenRead));
    wire::CloseRequest request = close_request(handle, Rights::kRead);
    request.atime = WallTime{ns};
    EXPECT_OK(asked<wire::CloseReply>(bobs, request));
    return stat(client, "f")->atime.ns;
  };
  clock.advance(std::chrono::seconds(10));
  EXPECT_EQ(read_at(before.atime.ns + 5), before.atime.ns + 5);
  EXPECT_EQ(read_at(before.atime.ns + 3), before.atime.ns + 5);  // it does not move back
  const std::int64_t now = before.atime.ns + 10'000'000'000;
  EXPECT_LE(read_at(INT64_MAX), now + 1'000'000'000);  // not ahead of the clock
  const Attributes after = *stat(client, "f");
  EXPECT_EQ(after.ctime, before.ctime);
  EXPECT_EQ(after.mtime, before.mtime);
}

TEST_F(MetaCloses, OnlyTheOwnerSetsTimesWithAClose) {
  TestClient bobs = connect(bob());
  ASSERT_OK(create(client, "f", 0, 0666));
  const auto opened = open_file(bobs, "f", wire::kOpenWrite);
  ASSERT_OK(opened);
  const Handle handle = opened->object.attributes.handle;
  wire::CloseRequest request = close_request(handle, Rights::kWrite);
  request.mtime = WallTime{77};
  EXPECT_ERRC(asked<wire::CloseReply>(bobs, request, id(90)), Errc::kNotPermitted);
  EXPECT_EQ(inode(handle).write_opens, 0U);  // the open has ended all the same
  EXPECT_NE(inode(handle).attributes.mtime, WallTime{77});
  // The error is stored as the answer.
  EXPECT_ERRC(asked<wire::CloseReply>(bobs, request, id(90)), Errc::kNotPermitted);
}

}  // namespace
}  // namespace spate::meta
