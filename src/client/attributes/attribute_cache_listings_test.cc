// SPDX-License-Identifier: Apache-2.0
// Which entries of listings are kept and which must not be, and when listings should ask for leases.
#include "client/attributes/attribute_cache_test.h"

namespace spate::client {
namespace {

class ListingsTest : public AttributeCacheTest {
 protected:
  static std::string name(std::uint64_t i) { return "f" + std::to_string(i); }
  static wire::NamePath in_directory(std::string path) { return {kDirectory, std::move(path), 0}; }
  static wire::DirectoryEntry entry(std::string name, Handle handle, FileType type = FileType::kRegular) {
    wire::DirectoryEntry out;
    out.name = std::move(name);
    out.handle = handle;
    out.type = type;
    out.attributes.emplace();
    out.attributes->handle = handle;
    out.attributes->type = type;
    out.attributes->size = handle.value;
    return out;
  }
  /// A page of `count` files, of which the first has number `first`.
  static wire::ListLeaseReply page(std::uint64_t first, std::uint64_t count) {
    wire::ListLeaseReply reply;
    for (std::uint64_t i = first; i < first + count; ++i) reply.page.entries.push_back(entry(name(i), Handle(100 + i)));
    reply.granted = true;
    reply.table = kTable;
    reply.lease_ms = 10000;
    return reply;
  }
  void list(const wire::ListLeaseReply& reply) { cache.end_listing(cache.begin_lookup(), kDirectory, &reply); }
};

TEST_F(ListingsTest, ListedEntriesAreAnswered) {
  list(page(0, 3));
  for (std::uint64_t i = 0; i < 3; ++i) {
    const auto found = cache.find_attributes(in_directory(name(i)));
    ASSERT_OK(found);
    EXPECT_EQ((*found)->size, 100 + i);
  }
  EXPECT_FALSE(kept(in_directory("other")));  // the names that were not listed remain unknown
  EXPECT_FALSE(kept(in_directory("")));       // its own attributes do not come with the page
  clock.advance(seconds(10));
  EXPECT_FALSE(kept(in_directory(name(0))));
}

TEST_F(ListingsTest, ALinkIsKeptWithWhereItLeads) {
  wire::ListLeaseReply reply = page(0, 1);
  reply.page.entries.insert(reply.page.entries.begin(), entry("l", Handle(50), FileType::kSymlink));
  reply.targets = {"target"};
  list(reply);
  const auto link = cache.find(in_directory("l"));
  ASSERT_OK(link);
  EXPECT_EQ((*link)->target, "target");
  reply.page.entries.push_back(entry("m", Handle(51), FileType::kSymlink));  // an entry without attributes
  list(reply);
  EXPECT_FALSE(kept(in_directory("m")));
}

TEST_F(ListingsTest, NothingIsKeptOfARefusedListing) {
  wire::ListLeaseReply reply = page(0, 4);
  reply.refused = {0, 2};
  list(reply);
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(kept(in_directory(name(i))), i % 2 == 1) << i;
  reply = page(4, 1);
  reply.granted = false;
  list(reply);
  EXPECT_FALSE(kept(in_directory(name(4))));
}

TEST_F(ListingsTest, EntriesRecalledBeforeTheAnswerCameAreNotKept) {
  auto asked = cache.begin_lookup();
  cache.recalled(Handle(101));
  const wire::ListLeaseReply reply = page(0, 2);
  cache.end_listing(asked, kDirectory, &reply);
  EXPECT_TRUE(kept(in_directory(name(0))));
  EXPECT_FALSE(kept(in_directory(name(1))));
  cache.clear();
  asked = cache.begin_lookup();
  cache.recalled(kDirectory);
  cache.end_listing(asked, kDirectory, &reply);
  EXPECT_FALSE(kept(in_directory(name(0))));
  asked = cache.begin_lookup();
  cache.clear();
  cache.end_listing(asked, kDirectory, &reply);
  EXPECT_FALSE(kept(in_directory(name(0))));
}

TEST_F(ListingsTest, EntriesThatAnOwnChangeTouchesMeanwhileAreNotKept) {
  const wire::ListLeaseReply reply = page(0, 2);
  wire::SetattrRequest request;
  request.where = {Handle(100), {}, 0};
  request.mode = 0600;
  const auto asked = cache.begin_lookup();
  {
    OwnChange change(cache, plan_of(request));
    const auto before = cache.begin_lookup();
    cache.end_listing(before, kDirectory, &reply);
    EXPECT_FALSE(kept(in_directory(name(0))));  // others may see the change already
    EXPECT_TRUE(kept(in_directory(name(1))));
    change.end({true, {Handle(100)}, {}}, {});
  }
  EXPECT_FALSE(kept(in_directory(name(0))));
  cache.end_listing(asked, kDirectory, &reply);
  EXPECT_FALSE(kept(in_directory(name(0))));  // the page was read before the change
}

TEST_F(ListingsTest, AListingDoesNotEvictItsOwnDirectory) {
  EXPECT_TRUE(cache.worth_listing(kDirectory));
  list(page(0, 400));
  EXPECT_TRUE(kept(in_directory(name(0))));
  EXPECT_FALSE(kept(in_directory(name(399))));
  EXPECT_EQ(cache.counters().listed, 250U);  // the names may take a quarter of the 1000
  EXPECT_FALSE(cache.worth_listing(kDirectory));
  EXPECT_TRUE(cache.worth_listing(kRootHandle));
  for (std::uint64_t i = 0; i < 5; ++i) {
    const wire::ListLeaseReply reply = page(1000 + 200 * i, 200);
    cache.end_listing(cache.begin_lookup(), Handle(20 + i), &reply);
    EXPECT_TRUE(kept({Handle(20 + i), name(1199 + 200 * i), 0})) << "listing " << i;
  }
  EXPECT_FALSE(kept(in_directory(name(0))));  // used longest ago
}

TEST_F(ListingsTest, UnusedListingsStopAskingForLeases) {
  std::uint64_t listed = 0;
  for (; cache.worth_listing(kRootHandle); listed += 100) {
    ASSERT_LT(listed, 100'000U);
    const wire::ListLeaseReply reply = page(listed, 100);
    cache.end_listing(cache.begin_lookup(), Handle(1000 + listed), &reply);
  }
  EXPECT_GT(listed, 10'000U);
  learn(file_reply());  // a look-up that a listing would have saved
  EXPECT_TRUE(cache.worth_listing(kRootHandle));
  // Programs use one in five of the listed entries, which is enough to go on for ever.
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const Handle directory(1'000'000 + i);
    const wire::ListLeaseReply reply = page(1'000'000 + 5 * i, 5);
    cache.end_listing(cache.begin_lookup(), directory, &reply);
    ASSERT_TRUE(kept({directory, name(1'000'000 + 5 * i), 0})) << "listing " << i;
    ASSERT_TRUE(cache.worth_listing(kRootHandle)) << "listing " << i;
  }
  // An entry that was kept before does not count as used because it was listed again.
  for (int i = 0; i < 10'000 && cache.worth_listing(kRootHandle); ++i) {
    list(page(0, 10));
    if (i > 0) ASSERT_TRUE(kept(in_directory(name(0))));
  }
  EXPECT_FALSE(cache.worth_listing(kRootHandle));
}

TEST_F(ListingsTest, LeasesAreRequestedAsTheOptionsSay) {
  AttributeCache never({true, 1000, nullptr, Listings::kNames}, clock);
  EXPECT_FALSE(never.worth_listing(kDirectory));
  AttributeCache off({false, 1000, nullptr, Listings::kObjects}, clock);
  EXPECT_FALSE(off.worth_listing(kDirectory));
  AttributeCache always({true, 1000, nullptr, Listings::kObjects}, clock);
  for (std::uint64_t i = 0; i < 400; ++i) {
    const wire::ListLeaseReply reply = page(i * 100, 100);
    always.end_listing(always.begin_lookup(), Handle(1000 + i), &reply);
  }
  EXPECT_TRUE(always.worth_listing(kDirectory));
}

}  // namespace
}  // namespace spate::client
