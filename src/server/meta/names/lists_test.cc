// SPDX-License-Identifier: Apache-2.0
// Listings that grant leases: what they contain, and which objects get a lease.
#include <gmock/gmock.h>

#include <algorithm>
#include <optional>

#include "base/expect.h"
#include "server/meta/testing/role_test.h"

namespace spate::meta {
namespace {

using std::chrono::seconds;

class MetaLists : public RoleTest {
 protected:
  MetaLists() { options.session_lease = seconds(30); }

  struct Listed {
    Result<wire::ListLeaseReply> reply = Errc::kUnknown;
    const wire::DirectoryEntry* find(std::string_view name) const {
      const auto& entries = reply->page.entries;
      const auto is_it = [&](const wire::DirectoryEntry& entry) { return entry.name == name; };
      const auto found = std::find_if(entries.begin(), entries.end(), is_it);
      return found == entries.end() ? nullptr : &*found;
    }
    std::uint32_t place(std::string_view name) const {
      return static_cast<std::uint32_t>(find(name) - reply->page.entries.data());
    }
  };
  Listed list(TestClient& client, Handle directory = kRootHandle, std::uint64_t cookie = 0, std::uint32_t most = 0) {
    wire::ListLeaseRequest request;
    request.handle = directory;
    request.cookie = cookie;
    request.max_entries = most;
    return {asked<wire::ListLeaseReply>(client, request, no_id())};
  }
  std::unique_ptr<Pending<wire::ObjectReply>> begin_chmod(TestClient& client, std::string path) {
    wire::SetattrRequest request;
    request.where = at(std::move(path));
    request.mode = 0600;
    return begin<wire::ObjectReply>(client, std::move(request), id(++client.next), seconds(60));
  }
  /// The recalls for the client. They count as acknowledged by the next call.
  std::vector<Handle> events(TestClient& client) {
    const auto reply = asked<wire::SessionEventsReply>(client, wire::SessionEventsRequest{table_, heard_, 0}, no_id());
    EXPECT_OK(reply);
    std::vector<Handle> recalled;
    for (const wire::SessionEvent& event : reply->events) {
      heard_ = event.number;
      recalled.emplace_back(event.subject);
    }
    table_ = reply->table;
    return recalled;
  }
  Handle make_directory(TestClient& client, std::string path, std::uint32_t mode = 0755) {
    wire::MkdirRequest request;
    request.where = at(std::move(path));
    request.attributes.mode = mode;
    const auto made = asked<wire::ObjectReply>(client, std::move(request));
    EXPECT_OK(made);
    return made ? made->attributes.handle : Handle();
  }
  bool holds(TestClient& client, Handle object) {
    LeaseTable table = role->leases();
    const auto* const leases = table.of(object);
    return leases != nullptr && leases->contains(client.id);
  }

  std::uint64_t table_ = 0;
  std::uint64_t heard_ = 0;
};

TEST_F(MetaLists, AListingHasAttributesAndALeaseForEachEntry) {
  TestClient a = connect();
  const Handle file = make_file(a, "f", 10);
  const Handle folder = make_directory(a, "d");
  wire::SymlinkRequest link;
  link.where = at("l");
  link.target = "somewhere";
  ASSERT_OK(asked<wire::ObjectReply>(a, link));
  const Listed all = list(a);
  ASSERT_OK(all.reply);
  EXPECT_TRUE(is_granted(*all.reply));
  EXPECT_TRUE(all.reply->page.end) << all.reply->page.entries.size() << " entries";
  EXPECT_THAT(all.reply->refused, testing::IsEmpty());
  EXPECT_EQ(all.reply->page.parent, kRootHandle);
  ASSERT_EQ(all.reply->page.entries.size(), 3U);
  const auto* const found = all.find("f");
  ASSERT_NE(found, nullptr);
  ASSERT_NE(found->attributes, std::nullopt);
  EXPECT_NE(found->layout, std::nullopt);
  EXPECT_EQ(found->attributes->size, 10U);
  EXPECT_EQ(all.find("d")->handle, folder);
  EXPECT_EQ(all.reply->targets, std::vector<std::string>{"somewhere"});
  for (const Handle object : {kRootHandle, file, folder, all.find("l")->handle}) EXPECT_TRUE(holds(a, object));
}

TEST_F(MetaLists, AChangeOfAListedObjectWaitsForItsHolder) {
  TestClient a = connect();
  TestClient b = connect();
  const Handle file = make_file(b, "f", 10);
  make_file(b, "g", 10);
  table_ = list(a).reply->table;
  auto change = begin_chmod(b, "f");
  EXPECT_EQ(change->result, std::nullopt);
  EXPECT_EQ(events(a), std::vector<Handle>{file});
  const Listed meanwhile = list(a);
  ASSERT_OK(meanwhile.reply);
  ASSERT_TRUE(is_granted(*meanwhile.reply));
  EXPECT_EQ(meanwhile.reply->refused, std::vector<std::uint32_t>{meanwhile.place("f")});
  EXPECT_EQ(meanwhile.find("f")->attributes->mode, 0644U);
  std::ignore = events(a);  // this acknowledges the recall
  run_ready();
  EXPECT_OK(change->result);
  EXPECT_THAT(list(a).reply->refused, testing::IsEmpty());
  wire::CreateRequest create;
  create.where = at("h");
  create.open_flags = wire::kOpenWrite;
  auto added = begin<wire::OpenReply>(b, create, id(++b.next), seconds(60));
  EXPECT_EQ(added->result, std::nullopt);  // a new name changes the directory
  EXPECT_FALSE(is_granted(*list(a).reply));
  while (!events(a).empty()) {
  }
  run_ready();
  EXPECT_OK(added->result);
}

TEST_F(MetaLists, APageBringsLeasesOnItsOwnEntriesOnly) {
  TestClient a = connect();
  for (const char* name : {"a", "b", "c", "d", "e"}) make_file(a, name, 1);
  std::size_t seen = 0;
  std::uint64_t cookie = 0;
  for (bool end = false; !end;) {
    const Listed page = list(a, kRootHandle, cookie, 2);
    ASSERT_OK(page.reply);
    ASSERT_TRUE(is_granted(*page.reply)) << "after " << seen << " names";
    seen += page.reply->page.entries.size();
    EXPECT_EQ(role->leases().of_session(a.id), seen + 1);
    cookie = page.reply->page.entries.back().cookie;
    end = page.reply->page.end;
  }
  EXPECT_EQ(seen, 5U);
}

TEST_F(MetaLists, WithoutSearchPermissionAListingHasNamesOnly) {
  TestClient a = connect();
  TestClient other = connect(bob());
  const Handle folder = make_directory(a, "d", 0744);
  make_file(a, "d/f", 1);
  const Listed names = list(other, folder);
  ASSERT_OK(names.reply);
  ASSERT_EQ(names.reply->page.entries.size(), 1U);
  EXPECT_EQ(names.reply->page.entries.front().attributes, std::nullopt);
  EXPECT_FALSE(is_granted(*names.reply));
  EXPECT_EQ(role->leases().of_session(other.id), 0U);
}

TEST_F(MetaLists, AFullSessionGetsNoMoreAndItsOldestAreRecalled) {
  TestClient a = connect();
  for (int i = 0; i < 20; ++i) make_file(a, "f" + std::to_string(i), 1);
  metrics::Registry others;
  LeaseManager few(role->core(), *role->core().parts().events, others, {100, 8});
  role->core().parts().leases = &few;
  const Listed all = list(a);
  ASSERT_OK(all.reply);
  ASSERT_TRUE(is_granted(*all.reply));
  EXPECT_EQ(few.table().of_session(a.id), 8U);
  EXPECT_EQ(all.reply->refused.size(), 13U);  // the directory's own lease takes one
  table_ = all.reply->table;
  const auto recalled = events(a);
  EXPECT_EQ(recalled.size(), 8U);
  std::ignore = events(a);
  EXPECT_EQ(few.table().of_session(a.id), 0U);
  close();
}

}  // namespace
}  // namespace spate::meta
