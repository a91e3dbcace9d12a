// SPDX-License-Identifier: Apache-2.0
// Several changes in one request: each has its own answer, and no other client sees a part of them.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "server/meta/testing/audit_test.h"
#include "server/meta/testing/role_test.h"

namespace spate::meta {
namespace {

class MetaBatches : public RoleTest {
 protected:
  template <typename Request>
  static wire::BatchedChange change(const Request& request) {
    wire::BatchedChange out;
    out.op = Request::kOp;
    wire::encode_body(request, out.body);
    return out;
  }
  static wire::BatchedChange mkdir(std::string path) {
    wire::MkdirRequest request;
    request.where = at(std::move(path));
    request.attributes.mode = 0755;
    return change(request);
  }
  static wire::BatchedChange create(std::string path, std::uint8_t flags = wire::kOpenExclusive) {
    wire::CreateRequest request;
    request.where = at(std::move(path));
    request.attributes.mode = 0644;
    request.open_flags = flags;
    return change(request);
  }
  static wire::BatchedChange to_read(std::string path) {
    return change(open_request(std::move(path), wire::kOpenRead));
  }
  static wire::BatchedChange unlink(std::string path) {
    wire::UnlinkRequest request;
    request.where = at(std::move(path));
    return change(request);
  }
  Result<wire::ChangeBatchReply> batch(std::vector<wire::BatchedChange> changes, wire::RequestId request_id) {
    return asked<wire::ChangeBatchReply>(client, wire::ChangeBatchRequest{std::move(changes)}, request_id);
  }
  static std::vector<Errc> statuses(const Result<wire::ChangeBatchReply>& reply) {
    EXPECT_OK(reply);
    std::vector<Errc> out;
    if (!reply) return out;
    for (const wire::BatchedAnswer& answer : reply->answers) out.push_back(answer.status);
    return out;
  }
  TestClient client = connect(root_user());
};

TEST_F(MetaBatches, EachChangeSeesTheEarlierChangesOfItsBatch) {
  const auto reply = batch({mkdir("d"), create("d/f"), mkdir("d/e"), unlink("d/f")}, id(1));
  EXPECT_THAT(statuses(reply), testing::Each(Errc::kOk));
  const auto made = wire::decode_body<wire::ObjectReply>(reply->answers[0].body);
  ASSERT_OK(made);
  const auto found = stat(client, "d");
  ASSERT_OK(found);
  EXPECT_EQ(found->handle, made->attributes.handle);
  EXPECT_EQ(found->size, 1U);
  EXPECT_EQ(found->link_count, 3U);
  EXPECT_ERRC(stat(client, "d/f"), Errc::kNotFound);
  Audit(*this).check();
}

TEST_F(MetaBatches, AChangeThatFailsLeavesTheOthers) {
  const auto reply = batch({mkdir("d"), mkdir("d"), unlink("d/none"), create("d/f"), unlink("d")}, id(1));
  EXPECT_THAT(statuses(reply),
              testing::ElementsAre(Errc::kOk, Errc::kExists, Errc::kNotFound, Errc::kOk, Errc::kIsDirectory));
  EXPECT_OK(stat(client, "d/f"));
}

TEST_F(MetaBatches, AChangeThatFailsAfterItHasPutSomethingLeavesNothing) {
  ASSERT_THAT(statuses(batch({create("old", kRW)}, id(1))), testing::Each(Errc::kOk));
  constexpr auto kTruncates = static_cast<std::uint8_t>(kRW | wire::kOpenTruncate);
  const auto reply =
      batch({mkdir("d"), create("old", kTruncates), create("d/f", kRW), create("old", kTruncates)}, id(2));
  EXPECT_THAT(statuses(reply), testing::ElementsAre(Errc::kOk, Errc::kNotSupported, Errc::kOk, Errc::kNotSupported));
  const Audit audit(*this);
  EXPECT_THAT(audit.intents, testing::IsEmpty());
  const auto old = stat(client, "old");
  ASSERT_OK(old);
  EXPECT_EQ(audit.writers.at(old->handle), 1U);
  const auto found = stat(client, "d");
  ASSERT_OK(found);
  EXPECT_EQ(found->size, 1U);
}

TEST_F(MetaBatches, FilesAreOpenedForReading) {
  ASSERT_THAT(statuses(batch({create("f"), create("g")}, id(1))), testing::Each(Errc::kOk));
  const auto reply = batch({to_read("f"), to_read("none"), to_read("g"), to_read("g")}, id(2));
  EXPECT_THAT(statuses(reply), testing::ElementsAre(Errc::kOk, Errc::kNotFound, Errc::kOk, Errc::kOk));
  const auto opened = wire::decode_body<wire::OpenReply>(reply->answers[2].body);
  ASSERT_OK(opened);
  EXPECT_EQ(opened->capability.rights, Rights::kRead);
  // Each open is one: the file lives until the last of them is closed.
  const Handle handle = opened->capability.handle;
  const wire::BatchedChange closes = change(close_request(handle, Rights::kRead));
  ASSERT_THAT(statuses(batch({unlink("g"), closes}, id(3))), testing::Each(Errc::kOk));
  EXPECT_TRUE(record<InodeRecord>(inode_key(handle)).has_value()) << "object " << handle.value << " is gone";
  ASSERT_THAT(statuses(batch({closes}, id(4))), testing::Each(Errc::kOk));
  EXPECT_FALSE(record<InodeRecord>(inode_key(handle)).has_value()) << "object " << handle.value << " is there";
}

// A server that is away would hold up the whole batch.
TEST_F(MetaBatches, AnOpenThatMustWaitForATruncationIsLeftOut) {
  make_file(client, "cut", 100);
  ASSERT_THAT(statuses(batch({create("f")}, id(101))), testing::Each(Errc::kOk));
  io.hold();
  const auto cutting = begin<wire::ObjectReply>(client, truncate_request("cut", 10), id(50, 1));
  const auto reply = batch({to_read("f"), to_read("cut"), mkdir("d")}, id(102));
  EXPECT_THAT(statuses(reply), testing::ElementsAre(Errc::kOk, Errc::kNotSupported, Errc::kOk));
  io.release();
  run_ready();
  ASSERT_OK(cutting->result);
  EXPECT_THAT(statuses(batch({to_read("cut")}, id(103))), testing::Each(Errc::kOk));
}

TEST_F(MetaBatches, AChangeWhoseAnswerHasNoRoomIsNotMade) {
  wire::SymlinkRequest symlink;
  symlink.where = at("link");
  symlink.target = std::string(4000, 't');
  ASSERT_THAT(statuses(batch({change(symlink)}, id(1))), testing::Each(Errc::kOk));
  std::vector<wire::BatchedChange> links;
  for (int i = 0; i < 32; ++i) {
    wire::LinkRequest request;
    request.existing = at("link");
    request.where = at("link" + std::to_string(i));
    links.push_back(change(request));  // each answer contains the link's target
  }
  const std::vector<Errc> made = statuses(batch(links, id(2)));
  const auto count = static_cast<std::uint32_t>(std::ranges::count(made, Errc::kOk));
  EXPECT_GE(count, 10U);
  EXPECT_LT(count, 32U);
  for (std::size_t i = 0; i < made.size(); ++i) EXPECT_EQ(made[i], i < count ? Errc::kOk : Errc::kMessageTooBig) << i;
  const auto found = stat(client, "link");
  ASSERT_OK(found);
  EXPECT_EQ(found->link_count, 1 + count);
}

TEST_F(MetaBatches, AResendIsAnsweredAndNotRunAgain) {
  const auto first = batch({mkdir("d"), mkdir("e"), mkdir("e")}, id(1));
  for (const bool restarted : {false, true}) {
    if (restarted) restart();
    const auto again = batch({mkdir("d"), mkdir("e"), mkdir("e")}, id(1));
    EXPECT_EQ(statuses(again), statuses(first)) << restarted;
  }
}

TEST_F(MetaBatches, ACrashKeepsAllOrNothing) {
  int commits = 0;
  store.on_commit = [&] { return ++commits == 1 ? Errc::kIoError : Errc::kOk; };
  EXPECT_ERRC(batch({mkdir("d"), mkdir("e")}, id(1)), Errc::kIoError);
  restart();
  EXPECT_ERRC(stat(client, "d"), Errc::kNotFound);
  EXPECT_ERRC(stat(client, "e"), Errc::kNotFound);
  EXPECT_THAT(statuses(batch({mkdir("d"), mkdir("e")}, id(1))), testing::Each(Errc::kOk));
}

TEST_F(MetaBatches, OperationsThatCannotBeBatchedAreRefused) {
  wire::LookupRequest looks;
  looks.where = at("");
  wire::BatchedChange garbage = mkdir("d");
  garbage.body.pop_back();
  const wire::BatchedChange nested = change(wire::ChangeBatchRequest{{mkdir("x")}});
  EXPECT_THAT(statuses(batch({change(looks), garbage, nested, mkdir("e")}, id(1))),
              testing::ElementsAre(Errc::kNotSupported, Errc::kProtocol, Errc::kNotSupported, Errc::kOk));
  EXPECT_ERRC(batch({}, id(2)), Errc::kInvalidArgument);
  EXPECT_ERRC(batch(std::vector<wire::BatchedChange>(wire::kMostBatched + 1, mkdir("y")), id(3)),
              Errc::kInvalidArgument);
  wire::BatchedChange large = mkdir("d");
  large.body.resize(wire::kMostBatchedBytes + 1);
  EXPECT_ERRC(batch({large}, id(4)), Errc::kInvalidArgument);
}

TEST_F(MetaBatches, ACloseEndsItsOpen) {
  const auto made = batch({create("f", kRW | wire::kOpenExclusive)}, id(1));
  ASSERT_THAT(statuses(made), testing::Each(Errc::kOk));
  const auto opened = wire::decode_body<wire::CreateReply>(made->answers[0].body);
  ASSERT_OK(opened);
  wire::CloseRequest request;
  request.handle = opened->object.attributes.handle;
  request.rights = Rights::kReadWrite;
  request.data = wire::DataSummary{};
  EXPECT_THAT(statuses(batch({change(request), change(request)}, id(2))),
              testing::ElementsAre(Errc::kOk, Errc::kBadDescriptor));
  EXPECT_THAT(Audit(*this).opens, testing::IsEmpty());
}

}  // namespace
}  // namespace spate::meta
