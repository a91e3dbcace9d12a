// SPDX-License-Identifier: Apache-2.0
// A listing brings leases on the objects that it lists.
#include <string>

#include "tests/cluster/leases_fixture.h"

namespace spate::cluster {
namespace {

using client::path_from_root;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ListingsTest = LeasesTest;

TEST_F(ListingsTest, ListedEntriesAreAnsweredWithoutTheServer) {
  client::Client& b = b_->client();
  const auto made = run(*b_, b.mkdir(path_from_root("d"), {}));
  ASSERT_OK(made);
  for (int i = 0; i < 40; ++i) make_file(*b_, "d/" + std::to_string(i));
  ASSERT_OK(run(*b_, b.mkdir(path_from_root("d/sub"), {})));
  ASSERT_OK(run(*b_, b.symlink(path_from_root("d/link"), "0")));
  auto file = create(*b_, "d/open");
  ASSERT_OK(run(*b_, file->write(0, Bytes(3000))));
  ASSERT_OK(stat(*a_, "d"));
  look_ups();
  const auto listed = list(*a_, made->handle);
  EXPECT_EQ(listed.size(), 43U);
  EXPECT_EQ(asked_[wire::Op::kListLease], 1U);
  for (const auto& [name, attributes] : listed) {
    wire::NamePath where = path_from_root("d/" + name, false);
    const auto found = run(*a_, a_->client().stat(where));
    ASSERT_OK(found) << name;
    EXPECT_EQ(found->attributes.handle, attributes.handle);
    EXPECT_EQ(found->attributes.size, attributes.size);
    EXPECT_EQ(found->target, name == "link" ? "0" : "");
    EXPECT_EQ(found->layout.has_value(), attributes.type == FileType::kRegular);
  }
  EXPECT_EQ(look_ups(), 0U);
  // The size of a file that is being written comes from its datafiles.
  EXPECT_EQ(listed.at("open").size, 3000U);
  EXPECT_FALSE(kept(*a_, "d/open"));
  ASSERT_OK(run(*b_, file->write(3000, Bytes(1000))));
  EXPECT_EQ(stat(*a_, "d/open")->size, 4000U);
  EXPECT_EQ(look_ups(), 0U);
  ASSERT_OK(run(*b_, file->close()));
  EXPECT_EQ(stat(*a_, "d/open")->size, 4000U);
  EXPECT_EQ(look_ups(), 1U);
}

TEST_F(ListingsTest, AChangeOfAListedObjectByAnotherClientIsSeenAtOnce) {
  client::Client& b = b_->client();
  const auto made = run(*b_, b.mkdir(path_from_root("d"), {}));
  ASSERT_OK(made);
  for (const char* name : {"moded", "gone", "moved", "grown", "cut", "linked", "still"})
    make_file(*b_, std::string("d/") + name);
  ASSERT_OK(stat(*a_, "d"));
  const auto list_anew = [&] { EXPECT_EQ(list(*a_, made->handle).size(), 7U); };
  list_anew();
  ASSERT_OK(chmod(*b_, "d/moded", 0611));
  EXPECT_TRUE(kept(*a_, "d/still"));
  EXPECT_EQ(stat(*a_, "d/moded")->mode, 0611U);
  auto file = run(*b_, b.open(path_from_root("d/grown"), wire::kOpenWrite));
  ASSERT_OK(file);
  ASSERT_OK(run(*b_, (*file)->write(0, Bytes(3000))));
  EXPECT_EQ(stat(*a_, "d/grown")->size, 3000U);
  ASSERT_OK(run(*b_, (*file)->close()));
  EXPECT_EQ(stat(*a_, "d/grown")->size, 3000U);
  ASSERT_OK(run(*b_, b.truncate(path_from_root("d/cut"), 70)));
  EXPECT_EQ(stat(*a_, "d/cut")->size, 70U);
  ASSERT_OK(run(*b_, b.link(path_from_root("d/linked"), path_from_root("other"))));
  EXPECT_EQ(stat(*a_, "d/linked")->link_count, 2U);
  list_anew();
  ASSERT_OK(run(*b_, b.unlink(path_from_root("d/gone"))));
  EXPECT_ERRC(stat(*a_, "d/gone"), Errc::kNotFound);
  make_file(*b_, "d/gone");
  list_anew();
  ASSERT_OK(run(*b_, b.rename(path_from_root("d/moved"), path_from_root("d/elsewhere"))));
  EXPECT_ERRC(stat(*a_, "d/moved"), Errc::kNotFound);
  EXPECT_OK(stat(*a_, "d/elsewhere"));
  list_anew();
  ASSERT_OK(run(*b_, b.rename(path_from_root("d/still"), path_from_root("d/moded"))));
  EXPECT_EQ(stat(*a_, "d/moded")->mode, stat(*b_, "d/moded")->mode);
  EXPECT_ERRC(stat(*a_, "d/still"), Errc::kNotFound);
}

TEST_F(ListingsTest, AChangeAtAnyMomentOfAListingIsSeen) {
  client::Client& b = b_->client();
  const auto made = run(*b_, b.mkdir(path_from_root("d"), {}));
  ASSERT_OK(made);
  make_file(*b_, "d/f");
  ASSERT_OK(stat(*a_, "d/f"));
  // The change comes at each of many moments while the listing is in flight.
  for (int i = 0; i < 60; ++i) {
    const std::uint32_t mode = i % 2 == 0 ? 0600 : 0644;
    wire::ReaddirRequest request;
    request.handle = made->handle;
    const auto page = begin_call(*a_, a_->client().readdir(request));
    world_.run_for(std::chrono::microseconds(5 * i));
    ASSERT_OK(chmod(*b_, "d/f", mode));
    EXPECT_EQ(stat(*a_, "d/f")->mode, mode) << i;
    world_.run_for(milliseconds(10));
    ASSERT_OK(*page);
    EXPECT_EQ(stat(*a_, "d/f")->mode, mode) << i;
  }
  EXPECT_EQ(asked_[wire::Op::kListLease], 60U);
}

TEST_F(ListingsTest, AClientThatKeepsNothingListsWithoutLeases) {
  ClientProcess& c = world_.start_client(small_client_options({}, {}, {}));
  make_file(c, "f");
  EXPECT_EQ(list(c, kRootHandle).size(), 1U);
  EXPECT_EQ(asked_[wire::Op::kReaddir], 1U);
  EXPECT_EQ(asked_[wire::Op::kListLease], 0U);
}

/// The servers know leases, but no listings that bring leases.
class OldServersTest : public LeasesTest {
 protected:
  OldServersTest() : LeasesTest(old()) {}
  static WorldOptions old() {
    WorldOptions options;
    options.features = wire::kFeatureLeases | wire::kFeatureGrants;
    return options;
  }
};

TEST_F(OldServersTest, GetTheListingRequestsOfTheirVersion) {
  make_file(*b_, "f");
  ASSERT_OK(stat(*a_, "f"));
  make_file(*b_, "g");
  EXPECT_EQ(list(*a_, kRootHandle).size(), 2U);
  EXPECT_EQ(asked_[wire::Op::kReaddir], 1U);
  EXPECT_EQ(asked_[wire::Op::kListLease], 0U);
  EXPECT_FALSE(kept(*a_, "g"));
  EXPECT_OK(stat(*a_, "g"));
}

}  // namespace
}  // namespace spate::cluster
