// SPDX-License-Identifier: Apache-2.0
// The disk of one copy cannot be read: clients get the bytes of the other copy.
#include "base/expect.h"
#include "base/expect_bytes.h"
#include "tests/mirror/mirror_world.h"

namespace spate::cluster {
namespace {

using FilePtr = std::unique_ptr<client::File>;
using trove::BytestreamOp;
using namespace std::chrono_literals;

constexpr std::size_t kInlineBytes = 9000;   // comes in the reply
constexpr std::size_t kBulkBytes = 900'000;  // comes in bulk messages

class FailingReadsTest : public ::testing::TestWithParam<std::size_t> {
 protected:
  FailingReadsTest() : client_(mirrors_.world.start_client()) {
    client::NewObject object;
    object.layout.slot_count = 1;
    auto made = run(client_.client().create(client::path_from_root("f"), kMirrorOpen, object));
    SPATE_CHECK(made.has_value());
    file_ = *std::move(made);
    for (std::size_t i = 0; i < content_.size(); ++i) content_[i] = static_cast<std::byte>(i * 31 % 251);
    EXPECT_OK(run(file_->write(0, content_)));
  }

  template <typename T>
  T run(job::Task<T> task) {
    return call(mirrors_.world, client_, std::move(task));
  }
  void refuse_reads(ServerId server) {
    for (auto& disk : mirrors_.world.disks(server).targets) disk->faults().refuse(BytestreamOp::kRead, Errc::kIoError);
  }
  void heal(ServerId server) {
    for (auto& disk : mirrors_.world.disks(server).targets) disk->faults().clear();
  }
  void expect_content() {
    Bytes found(content_.size());
    ASSERT_OK(run(file_->read(0, found)));
    EXPECT_BYTES(found, content_);
  }

  MirrorWorld mirrors_;
  ClientProcess& client_;
  FilePtr file_;
  Bytes content_ = Bytes(GetParam());
};

TEST_P(FailingReadsTest, TheOtherCopyIsRead) {
  const ServerId first = mirrors_.primary_of(*file_);
  refuse_reads(first);
  expect_content();
  EXPECT_NE(mirrors_.primary_of(*file_), first) << "the server that cannot read still leads";
  EXPECT_OK(run(file_->write(0, content_)));
  heal(first);
  EXPECT_EQ(mirrors_.differences(), "");
}

TEST_P(FailingReadsTest, ManyReadsAtOnceAllSucceed) {
  refuse_reads(mirrors_.primary_of(*file_));
  std::vector<Bytes> found(20, Bytes(content_.size()));
  std::vector<Outcome<Result<std::uint64_t>>> reads;
  for (Bytes& memory : found) reads.push_back(begin_call(client_, file_->read(0, memory)));
  for (std::size_t i = 0; i < reads.size(); ++i) {
    ASSERT_OK(end_call(mirrors_.world, reads[i])) << "read " << i;
    EXPECT_BYTES(found[i], content_);
  }
}

/// Otherwise the servers would take turns as the primary for as long as somebody reads.
TEST_P(FailingReadsTest, IfNoCopyCanBeReadTheReadSoonFails) {
  const ServerId first = mirrors_.primary_of(*file_);
  const ServerId second = mirrors_.backup_of(*file_);
  mirrors_.world.run_for(60s);  // a new primary reads what was changed a short time ago
  refuse_reads(first);
  refuse_reads(second);
  const MonoTime begun = mirrors_.world.now();
  Bytes found(content_.size());
  EXPECT_ERRC(run(file_->read(0, found)), Errc::kIoError);
  EXPECT_LT(mirrors_.world.now() - begun, 10s) << "the servers take turns";
  const std::uint64_t epoch = mirrors_.group_of(*file_).epoch;
  for (int i = 0; i < 10; ++i) {
    mirrors_.world.run_for(3s);  // the server that does not lead has time to count again
    EXPECT_ERRC(run(file_->read(0, found)), Errc::kIoError);
  }
  // Each of the two has stepped down once, and has returned: three changes each.
  EXPECT_LE(mirrors_.group_of(*file_).epoch, epoch + 6) << "each read changes the record";
  heal(first);
  heal(second);
  expect_content();
}

/// The new primary has to make the copies of that change equal before it leads. It cannot, and no other copy is left.
TEST_P(FailingReadsTest, IfNoCopyCanBeReadRightAfterAChangeTheReadSoonFails) {
  const ServerId first = mirrors_.primary_of(*file_);
  const ServerId second = mirrors_.backup_of(*file_);
  EXPECT_OK(run(file_->write(0, content_)));
  refuse_reads(first);
  refuse_reads(second);
  const MonoTime begun = mirrors_.world.now();
  Bytes found(content_.size());
  EXPECT_ERRC(run(file_->read(0, found)), Errc::kIoError);
  EXPECT_LT(mirrors_.world.now() - begun, 10s) << "the read waits for a primary";
  heal(first);
  heal(second);
  expect_content();
  ASSERT_TRUE(mirrors_.become_whole()) << "a group lacks a copy";
  EXPECT_EQ(mirrors_.differences(), "");
}

/// A third copy that can be read is found, though two primaries cannot read theirs.
TEST(FailingReadsOfTwoTest, TheThirdCopyIsReadRightAfterAChange) {
  WorldOptions options = mirror_options();
  options.replicas = 3;
  options.io_servers = 3;
  MirrorWorld mirrors(options);
  ClientProcess& client = mirrors.world.start_client();
  client::NewObject object;
  object.layout.slot_count = 1;
  const auto file =
      call(mirrors.world, client, client.client().create(client::path_from_root("f"), kMirrorOpen, object));
  ASSERT_OK(file);
  const Bytes content(kInlineBytes, std::byte{7});
  ASSERT_OK(call(mirrors.world, client, (*file)->write(0, content)));
  const ServerId good = mirrors.backup_of(**file);
  for (const ServerId server : mirrors.world.servers()) {
    if (server == kMetaServer || server == good) continue;
    for (const BytestreamOp op : {BytestreamOp::kRead, BytestreamOp::kOpen})
      mirrors.world.disks(server).targets.front()->faults().refuse(op, Errc::kIoError);
  }
  Bytes found(content.size());
  ASSERT_OK(call(mirrors.world, client, (*file)->read(0, found)));
  EXPECT_BYTES(found, content);
  EXPECT_EQ(mirrors.primary_of(**file), good);
}

INSTANTIATE_TEST_SUITE_P(Each, FailingReadsTest, ::testing::Values(kInlineBytes, kBulkBytes),
                         [](const auto& info) { return info.param == kInlineBytes ? "Small" : "Large"; });

}  // namespace
}  // namespace spate::cluster
