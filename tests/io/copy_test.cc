// SPDX-License-Identifier: Apache-2.0
// Ranges of data, and copies from datafile to datafile: who may request them, and which requests are refused.

#include "base/expect.h"
#include "tests/io/client.h"
#include "wire/copy_messages.h"

namespace spate::io::testing {
namespace {

constexpr Handle kFrom{42};
constexpr Handle kTo{43};

class CopyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    wire::WriteRequest request =
        write_request(slot_set(kFrom, 1), *datatype::Description::contiguous(8192, data_.size()));
    request.has_inline_data = true;
    ASSERT_OK(world_.run(client_.write(request, {data_}, client_.capability(kFrom))));
  }
  wire::DatafileCopyRequest copy_request() {
    wire::DatafileCopyRequest request;
    request.from = kFrom;
    request.to = kTo;
    request.pieces = {{World::target(0), 0, 0, 0, 4096, 8192 + data_.size()}};
    request.from_capability = client_.capability(kFrom, Rights::kRead);
    request.fs_time = WallTime{1'000'000'000'000'000'000};
    return request;
  }
  Errc copy(const wire::DatafileCopyRequest& request) { return copy(request, client_.capability(kTo, Rights::kWrite)); }
  Errc copy(const wire::DatafileCopyRequest& request, const Capability& capability) {
    return client_.ask<wire::DatafileCopyReply>(request, &capability).code();
  }
  Result<wire::DatafileRangesReply> ranges(Handle handle, std::uint64_t from, std::uint32_t max) {
    wire::DatafileRangesRequest request;
    request.handle = handle;
    request.slots = {{0, World::target(0)}};
    request.offsets = {from};
    request.max_ranges = max;
    const Capability capability = client_.capability(handle, Rights::kWrite);
    return client_.ask<wire::DatafileRangesReply>(request, &capability);
  }

  World world_;
  Client client_{world_};
  const Bytes data_ = pattern(1, 5000);
};

TEST_F(CopyTest, CopiesBytesHolesAndLengthAndReturnsTheState) {
  const Capability capability = client_.capability(kTo, Rights::kWrite);
  const auto reply = client_.ask<wire::DatafileCopyReply>(copy_request(), &capability);
  ASSERT_OK(reply);
  ASSERT_EQ(reply->datafiles.size(), 1U);
  EXPECT_EQ(reply->datafiles[0].size, 4096 + 8192 + data_.size());
  EXPECT_EQ(reply->datafiles[0].mtime.ns, 1'000'000'000'000'000'000);
  wire::ReadRequest read =
      read_request(slot_set(kTo, 1), *datatype::Description::contiguous(4096 + 8192, data_.size()));
  read.inline_limit = 65536;
  const auto got = world_.run(client_.read(read, client_.capability(kTo)));
  ASSERT_OK(got);
  EXPECT_EQ(got->reply.data, data_);
  const auto found = ranges(kTo, 0, 4);
  ASSERT_OK(found);
  ASSERT_EQ(found->ranges.size(), 1U);
  ASSERT_EQ(found->ranges[0].ranges.size(), 1U);
  EXPECT_EQ(found->ranges[0].ranges[0].offset, 4096U + 8192U);
  EXPECT_EQ(found->datafiles[0].size, reply->datafiles[0].size);
}

TEST_F(CopyTest, BothCapabilitiesAreChecked) {
  EXPECT_EQ(copy(copy_request()), Errc::kOk);
  EXPECT_EQ(copy(copy_request(), client_.capability(kTo, Rights::kRead)), Errc::kCapabilityInvalid);
  EXPECT_EQ(copy(copy_request(), client_.capability(kFrom, Rights::kWrite)), Errc::kCapabilityInvalid);
  EXPECT_ERRC(client_.ask<wire::DatafileCopyReply>(copy_request()), Errc::kCapabilityInvalid);  // no capability
  wire::DatafileCopyRequest request = copy_request();
  request.from_capability = client_.capability(kFrom, Rights::kWrite);
  EXPECT_EQ(copy(request), Errc::kCapabilityInvalid);
  request.from_capability = client_.capability(Handle(44), Rights::kRead);
  EXPECT_EQ(copy(request), Errc::kCapabilityInvalid);
  request = copy_request();
  request.from_capability.uid = 7;
  EXPECT_EQ(copy(request), Errc::kCapabilityInvalid);
  request.from_capability = Capability();
  EXPECT_EQ(copy(request), Errc::kCapabilityInvalid);
}

TEST_F(CopyTest, NonsenseIsRefused) {
  const auto with = [&](wire::CopyPiece piece) {
    wire::DatafileCopyRequest request = copy_request();
    request.pieces = {piece};
    return copy(request);
  };
  const TargetId target = World::target(0);
  EXPECT_EQ(with({target, 0, 0, 0, 0, 0}), Errc::kInvalidArgument);
  EXPECT_EQ(with({target, 99999, 0, 0, 0, 1}), Errc::kInvalidArgument);
  EXPECT_EQ(with({target, 0, 99999, 0, 0, 1}), Errc::kInvalidArgument);
  EXPECT_EQ(with({target, 0, 0, ~0ULL, 0, 1}), Errc::kInvalidArgument);
  EXPECT_EQ(with({target, 0, 0, 0, 1ULL << 62U, 1ULL << 63U}), Errc::kInvalidArgument);
  EXPECT_EQ(with({TargetId(0xFFFF), 0, 0, 0, 0, 1}), Errc::kStaleMap);
  wire::DatafileCopyRequest request = copy_request();
  request.pieces.clear();
  EXPECT_EQ(copy(request), Errc::kInvalidArgument);
  request.pieces = {{target, 0, 1, 0, 0, 1}, {target, 0, 1, 0, 0, 1}};
  EXPECT_EQ(copy(request), Errc::kInvalidArgument);
  EXPECT_ERRC(ranges(kFrom, 0, 0), Errc::kInvalidArgument);
  EXPECT_ERRC(ranges(kFrom, 0, 257), Errc::kInvalidArgument);
  EXPECT_ERRC(ranges(kFrom, ~0ULL, 1), Errc::kInvalidArgument);
  EXPECT_OK(ranges(kFrom, 0, 256));
}

TEST_F(CopyTest, ACopyToARemovedFileIsRefused) {
  Client server(world_, {.kind = wire::PeerKind::kServer});
  wire::DatafileRemoveRequest remove;
  remove.datafiles = {{kTo, {0, World::target(0)}}};
  remove.tombstone_until.ns = world_.clock().wall().ns + 3'600'000'000'000;
  ASSERT_OK(server.ask<wire::DatafileRemoveReply>(remove));
  EXPECT_EQ(copy(copy_request()), Errc::kStaleHandle);
}

}  // namespace
}  // namespace spate::io::testing
