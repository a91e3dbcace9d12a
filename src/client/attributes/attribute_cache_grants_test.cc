// SPDX-License-Identifier: Apache-2.0
// What the cache keeps when a change comes back with leases, and what it knows of directories that this client made.
#include "client/attributes/attribute_cache_test.h"

namespace spate::client {
namespace {

constexpr std::uint8_t kSearchable = wire::GrantedObject::kSearchable;
constexpr std::uint8_t kNeverUsed = wire::GrantedObject::kNeverUsed;

/// The requests of this fixture are granted leases on the objects that they touch.
class GrantsTest : public AttributeCacheTest {
 protected:
  static wire::GrantedObject object(Handle handle, std::uint64_t size, std::uint8_t flags = 0) {
    wire::GrantedObject out;
    out.object.attributes.handle = handle;
    out.object.attributes.size = size;
    if (flags != 0) out.object.attributes.type = FileType::kDirectory;
    out.flags = flags;
    return out;
  }
  static wire::Granted granted(std::uint64_t order, std::vector<wire::GrantedObject> objects) {
    return {true, kTable, 10000, order, std::move(objects), {}};
  }
  static wire::CreateRequest creation(const std::string& name) {
    wire::CreateRequest request;
    request.where = {kDirectory, name, 0};
    request.open_flags = wire::kOpenExclusive;
    return request;
  }
  /// The grants with the answer of a create: `file` was made, and the directory has `entries` entries.
  static wire::Granted created(std::uint64_t order, const std::string& name, Handle file, std::uint64_t entries) {
    wire::Granted out = granted(order, {object(kDirectory, entries, kSearchable), object(file, 0)});
    out.names = {{kDirectory, name, file, FileType::kRegular}};
    return out;
  }
  static wire::Touched touched(const std::string& name, Handle file) {
    return {true, {kDirectory, file}, {{kDirectory, name}}};
  }
  void make_directory() {
    wire::MkdirRequest request;
    request.where = at("d");
    OwnChange change(cache, plan_of(request));
    wire::Granted grant =
        granted(1, {object(kRootHandle, 1, kSearchable), object(kDirectory, 0, kSearchable | kNeverUsed)});
    grant.names = {{kRootHandle, "d", kDirectory, FileType::kDirectory}};
    change.end({true, {kRootHandle, kDirectory}, {{kRootHandle, "d"}}}, grant);
  }
  void create(std::uint64_t order, const std::string& name, Handle file) {
    OwnChange change(cache, plan_of(creation(name)));
    change.end(touched(name, file), created(order, name, file, 1));
  }
  std::optional<Errc> answer(const wire::NamePath& where) {
    const auto found = cache.find_attributes(where);
    if (!found) return std::nullopt;
    return found->code();
  }
};

TEST_F(GrantsTest, AfterAnOwnChangeItsGrantsAreAnswered) {
  make_directory();
  create(2, "f", kFile);
  EXPECT_TRUE(kept(at("d/f")));
  EXPECT_TRUE(kept({kFile, "", 0}));
  EXPECT_EQ((*cache.find_attributes(at("d")))->size, 1U);
  clock.advance(seconds(10));
  EXPECT_FALSE(kept(at("d/f")));
}

TEST_F(GrantsTest, AllNamesOfANewDirectoryAreKnown) {
  make_directory();
  create(2, "f", kFile);
  EXPECT_EQ(answer(at("d/g")), Errc::kNotFound);
  EXPECT_EQ(answer({kDirectory, "h", 0}), Errc::kNotFound);
  EXPECT_EQ(answer(at("other")), std::nullopt);  // its directory existed before
  EXPECT_EQ(answer({kDirectory, std::string(256, 'x'), 0}), std::nullopt);
  EXPECT_EQ(answer({kDirectory, std::string("a\0b", 3), 0}), std::nullopt);
  {
    wire::UnlinkRequest request;
    request.where = at("d/f");
    OwnChange change(cache, plan_of(request));
    wire::Granted grant = granted(3, {object(kDirectory, 0, kSearchable)});
    grant.names = {{kDirectory, "f", Handle(), FileType::kRegular}};
    change.end(touched("f", kFile), grant);
  }
  EXPECT_EQ(answer({kDirectory, "f", 0}), Errc::kNotFound);
  EXPECT_FALSE(kept({kFile, "", 0}));
  cache.recalled(kDirectory);  // another client adds a name
  wire::LookupLeaseReply again = file_reply();
  learn(again);
  EXPECT_EQ(answer({kDirectory, "f", 0}), Errc::kOk);
  EXPECT_EQ(answer({kDirectory, "g", 0}), std::nullopt);
}

TEST_F(GrantsTest, ADirectoryWithAnUngrantedChangeIsNotComplete) {
  make_directory();
  {
    OwnChange change(cache, plan_of(creation("f")));
    change.end(touched("f", kFile), {});
  }
  EXPECT_EQ(answer({kDirectory, "f", 0}), std::nullopt);
  EXPECT_EQ(answer({kDirectory, "g", 0}), std::nullopt);
}

TEST_F(GrantsTest, ADirectoryThatMayNotBeSearchedAnswersNoNames) {
  make_directory();
  wire::SetattrRequest request;
  request.where.start = kDirectory;
  {
    OwnChange change(cache, plan_of(request));
    wire::GrantedObject closed = object(kDirectory, 0, kNeverUsed);
    change.end({true, {kDirectory}, {}}, granted(2, {closed}));
  }
  EXPECT_TRUE(kept(at("d")));
  EXPECT_EQ(answer({kDirectory, "g", 0}), std::nullopt);
}

TEST_F(GrantsTest, AnEarlierChangesAnswerThatComesLaterReplacesNothing) {
  make_directory();
  OwnChange first(cache, plan_of(creation("f")));
  OwnChange second(cache, plan_of(creation("g")));
  second.end(touched("g", Handle(12)), created(3, "g", Handle(12), 2));
  first.end(touched("f", kFile), created(2, "f", kFile, 1));
  EXPECT_EQ((*cache.find_attributes(at("d")))->size, 2U);
  EXPECT_EQ(answer({kDirectory, "g", 0}), Errc::kOk);
  EXPECT_EQ(answer({kDirectory, "f", 0}), std::nullopt);
}

TEST_F(GrantsTest, AGrantRecalledBeforeTheAnswerCameIsNotKept) {
  make_directory();
  OwnChange change(cache, plan_of(creation("f")));
  cache.recalled(kDirectory);
  change.end(touched("f", kFile), created(2, "f", kFile, 1));
  EXPECT_FALSE(kept(at("d")));
  EXPECT_EQ(answer({kDirectory, "f", 0}), std::nullopt);
  EXPECT_EQ(answer({kDirectory, "g", 0}), std::nullopt);
  EXPECT_TRUE(kept({kFile, "", 0}));
}

TEST_F(GrantsTest, AGrantOfANewServerProcessEndsAllEarlierLeases) {
  make_directory();
  OwnChange change(cache, plan_of(creation("f")));
  wire::Granted grant = created(1, "f", kFile, 1);
  grant.table = kTable + 1;
  change.end(touched("f", kFile), grant);
  EXPECT_FALSE(kept(at("d")));
}

}  // namespace
}  // namespace spate::client
