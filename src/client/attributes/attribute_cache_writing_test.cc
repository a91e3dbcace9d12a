// SPDX-License-Identifier: Apache-2.0
// Files that this client has made and that only it writes: the cache knows their data without asking a server.
#include "client/attributes/attribute_cache_test.h"

namespace spate::client {
namespace {

/// Keeps copies that end by themselves soon.
class BriefHolder final : public Copies {
 public:
  Names takes_names() const override { return Names::kOfNone; }
  bool brief() const override { return true; }
  bool begin_attributes(Handle, MonoTime) override { return true; }
  void drop_attributes(Handle) override {}
  void drop_names() override {}
  bool when_dropped(UniqueFunction<void()>) override { return false; }
};

class SoleWriterCacheTest : public AttributeCacheTest {
 protected:
  static wire::GrantedObject written_file() {
    wire::GrantedObject out;
    out.object.attributes.handle = kFile;
    out.object.attributes.size_known = false;
    out.object.attributes.mode = 0644;
    out.object.attributes.mtime = WallTime{100};
    return out;
  }
  static wire::Granted granted(std::uint64_t order, std::vector<wire::GrantedObject> objects) {
    return {true, kTable, 10000, order, std::move(objects), {}};
  }
  static wire::CreateRequest creation() {
    wire::CreateRequest request;
    request.where = {kDirectory, "f", 0};
    request.open_flags = wire::kOpenWrite;
    return request;
  }
  static wire::DataSummary data(std::uint64_t size, std::uint64_t changes) {
    return {size, 4096, WallTime{200}, changes};
  }

  void make_file() {
    OwnChange change(cache, plan_of(creation()));
    change.end({true, {kDirectory, kFile}, {{kDirectory, "f"}}}, granted(1, {written_file()}), {kFile, true});
  }
  /// Makes a change of the file that is granted and adds no name.
  template <typename Request>
  void change_file(const Request& request, std::uint64_t order, OpenedFile opened = {}) {
    OwnChange change(cache, plan_of(request));
    change.end({true, {kFile}, {}}, granted(order, {written_file()}), opened);
  }
  void write(const std::optional<wire::DataSummary>& after) {
    cache.begin_writing(kFile);
    cache.end_writing(kFile, after);
  }
  std::optional<std::uint64_t> size() {
    const auto found = cache.find_attributes({kFile, {}, 0});
    if (!found || !*found) return std::nullopt;
    return (*found)->size;
  }
};

TEST_F(SoleWriterCacheTest, OwnCreationsAndWritesAreKnown) {
  make_file();
  EXPECT_EQ(size(), 0U);
  write(data(5000, 1));
  const auto found = cache.find_attributes({kFile, {}, 0});
  ASSERT_TRUE(found);
  ASSERT_OK(*found);
  EXPECT_EQ((*found)->size, 5000U);
  EXPECT_EQ((*found)->allocated_bytes, 4096U);
  EXPECT_EQ((*found)->mtime, WallTime{200});
  EXPECT_FALSE((*found)->size_known);
}

TEST_F(SoleWriterCacheTest, AMtimeThatWasSetIsRightUntilTheNextWrite) {
  make_file();
  wire::GrantedObject set = written_file();
  set.object.attributes.mtime = WallTime{50};
  set.object.attributes.change_sum = 1;
  write(data(5000, 1));
  wire::SetattrRequest request;
  request.where.start = kFile;
  {
    OwnChange change(cache, plan_of(request));
    EXPECT_EQ(size(), std::nullopt);
    change.end({true, {kFile}, {}}, granted(2, {set}));
  }
  EXPECT_EQ((*cache.find_attributes({kFile, {}, 0}))->mtime, WallTime{50});
  write(data(6000, 2));
  EXPECT_EQ((*cache.find_attributes({kFile, {}, 0}))->mtime, WallTime{200});
}

TEST_F(SoleWriterCacheTest, NothingIsKnownWhileAWriteIsUnderWay) {
  make_file();
  cache.begin_writing(kFile);
  cache.begin_writing(kFile);
  EXPECT_EQ(size(), std::nullopt);
  cache.end_writing(kFile, data(5000, 1));
  EXPECT_EQ(size(), std::nullopt);
  cache.end_writing(kFile, data(5000, 2));
  EXPECT_EQ(size(), 5000U);
  write(std::nullopt);
  EXPECT_EQ(size(), std::nullopt);
}

TEST_F(SoleWriterCacheTest, ARecallDropsTheKnownDataForGood) {
  make_file();
  cache.recalled(kFile);
  wire::LookupLeaseReply reply = file_reply();
  reply.object->attributes.size_known = false;
  learn(reply);
  EXPECT_EQ(size(), std::nullopt);
  write(data(5000, 1));
  EXPECT_EQ(size(), std::nullopt);
}

TEST_F(SoleWriterCacheTest, AnExpiredLeaseDropsTheKnownDataForGood) {
  make_file();
  clock.advance(seconds(11));
  EXPECT_EQ(size(), std::nullopt);
  wire::LookupLeaseReply reply = file_reply();
  reply.object->attributes.size_known = false;
  learn(reply);
  EXPECT_EQ(size(), std::nullopt);
  wire::SetattrRequest request;
  request.where.start = kFile;
  change_file(request, 2);
  EXPECT_EQ(size(), std::nullopt);
}

TEST_F(SoleWriterCacheTest, ALookUpUnderTheSameLeaseKeepsTheKnownData) {
  make_file();
  write(data(5000, 1));
  wire::LookupLeaseReply reply = file_reply();
  reply.object->attributes.size_known = false;
  learn(reply);
  EXPECT_EQ(size(), 5000U);
}

TEST_F(SoleWriterCacheTest, AnotherOwnOpenForWritingDropsTheKnownData) {
  make_file();
  wire::OpenRequest request;
  request.where.start = kFile;
  request.open_flags = wire::kOpenWrite;
  change_file(request, 2);
  EXPECT_EQ(size(), std::nullopt);
}

TEST_F(SoleWriterCacheTest, ATruncationDropsTheKnownData) {
  make_file();
  wire::TruncateRequest request;
  request.where.start = kFile;
  change_file(request, 2);
  EXPECT_EQ(size(), std::nullopt);
}

TEST_F(SoleWriterCacheTest, ACreateThatOpensAnExistingFileMakesNoSoleWriter) {
  change_file(creation(), 1, {kFile, false});
  EXPECT_EQ(size(), std::nullopt);
}

/// The answer has the form of a batch's reply.
TEST_F(SoleWriterCacheTest, ACreationDoesNotAffectAnotherFileOfTheSameBatch) {
  const wire::Touched touched{true, {kDirectory, kFile}, {{kDirectory, "f"}, {kDirectory, "g"}}};
  wire::CreateRequest other = creation();
  other.where.path = "g";
  {
    OwnChange change(cache, plan_of(other));
    change.end(touched, granted(1, {written_file()}), {Handle(77), true});
  }
  EXPECT_EQ(size(), std::nullopt);
  change_file(creation(), 1, {kFile, true});
  cache.begin_writing(kFile);
  {
    OwnChange change(cache, plan_of(other));
    change.end(touched, granted(1, {written_file()}), {Handle(77), true});
  }
  cache.end_writing(kFile, data(5000, 1));
  EXPECT_EQ(size(), 5000U);
  wire::CloseRequest close;
  close.handle = Handle(78);
  {
    OwnChange change(cache, plan_of(close));
    change.end({true, {kFile, Handle(78)}, {}}, granted(2, {written_file()}));
  }
  EXPECT_EQ(size(), 5000U);
}

/// Only the meta server can tell whether a write has cleared setuid and setgid.
TEST_F(SoleWriterCacheTest, OnlyTheServerAnswersTheModeOfASetuidFile) {
  make_file();
  wire::GrantedObject lends = written_file();
  lends.object.attributes.mode = 04755;
  wire::SetattrRequest request;
  request.where.start = kFile;
  {
    OwnChange change(cache, plan_of(request));
    change.end({true, {kFile}, {}}, granted(2, {lends}));
  }
  EXPECT_EQ(size(), std::nullopt);
  EXPECT_FALSE(cache.find({kFile, {}, 0})) << "its mode, too";
}

TEST_F(SoleWriterCacheTest, CopiesThatEndSoonHaveItsSize) {
  BriefHolder holder;
  AttributeCache copied{{true, 1000, &holder}, clock};
  {
    OwnChange change(copied, plan_of(creation()));
    change.end({true, {kDirectory, kFile}, {{kDirectory, "f"}}}, granted(1, {written_file()}), {kFile, true});
  }
  copied.begin_writing(kFile);
  EXPECT_EQ(copied.copy_attributes(kFile), std::nullopt) << "a write is under way";
  copied.end_writing(kFile, data(5000, 1));
  const auto copy = copied.copy_attributes(kFile);
  ASSERT_NE(copy, std::nullopt);
  EXPECT_EQ(copy->attributes.size, 5000U);
}

}  // namespace
}  // namespace spate::client
