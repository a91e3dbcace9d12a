// SPDX-License-Identifier: Apache-2.0
// Two clients that keep attributes, each change of one seen by the other; a holder that is cut off; a server that
// restarts.

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/expect.h"
#include "client/attributes/copies.h"
#include "tests/cluster/calls.h"

namespace spate::cluster {
namespace {

using bmi::sim::Death;
using client::path_from_root;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint8_t kWrite = wire::kOpenWrite;

/// Copies that are dropped when the test says so.
class SlowCopies final : public client::Copies {
 public:
  bool takes_names() const override { return true; }
  bool begin_attributes(Handle, MonoTime) override { return true; }
  void drop_attributes(Handle) override { dropping_ = true; }
  void drop_names() override { dropping_ = true; }
  bool when_dropped(UniqueFunction<void()> then) override {
    if (dropping_) waiting_.push_back(std::move(then));
    return dropping_;
  }
  bool dropping() const { return dropping_; }
  void drop() {
    dropping_ = false;
    for (UniqueFunction<void()>& then : std::exchange(waiting_, {})) then();
  }

 private:
  bool dropping_ = false;
  std::vector<UniqueFunction<void()>> waiting_;
};

class LeasesTest : public ::testing::Test {
 protected:
  explicit LeasesTest(const WorldOptions& options = {}) : world_(options), a_(&start()), b_(&start()) {
    world_.watch().on_arrival([this](const WatchedRequest& request) { ++asked_[request.op]; });
  }

  ClientProcess& start() {
    client::Options options = small_client_options({}, {}, {});
    options.keep_attributes = true;
    return world_.start_client(std::move(options));
  }
  template <typename T>
  T run(ClientProcess& process, job::Task<T> task) {
    return call(world_, process, std::move(task));
  }
  Result<Attributes> stat(ClientProcess& process, const std::string& path) {
    auto found = run(process, process.client().stat(path_from_root(path)));
    if (!found) return std::move(found).error();
    return found->attributes;
  }
  std::unique_ptr<client::File> create(ClientProcess& process, const std::string& path) {
    auto made = run(process, process.client().create(path_from_root(path), kWrite, {}));
    EXPECT_OK(made);
    return made ? *std::move(made) : nullptr;
  }
  void make_file(ClientProcess& process, const std::string& path) {
    auto file = create(process, path);
    ASSERT_NE(file, nullptr);
    EXPECT_OK(run(process, file->close()));
  }
  Result<Attributes> chmod(ClientProcess& process, const std::string& path, std::uint32_t mode) {
    wire::SetattrRequest request;
    request.where = path_from_root(path);
    request.mode = mode;
    return run(process, process.client().setattr(request));
  }
  /// One page, with attributes.
  std::map<std::string, Attributes> list(ClientProcess& process, Handle directory) {
    wire::ReaddirRequest request;
    request.handle = directory;
    request.attributes = true;
    const auto page = run(process, process.client().readdir(request));
    EXPECT_OK(page);
    std::map<std::string, Attributes> entries;
    if (!page) return entries;
    EXPECT_TRUE(page->end);
    for (const wire::DirectoryEntry& entry : page->entries) entries[entry.name] = entry.attributes.value();
    return entries;
  }
  /// Questions to the meta server about names and attributes since the last call.
  std::uint64_t look_ups() {
    std::uint64_t sum = 0;
    for (const wire::Op op : {wire::Op::kLookup, wire::Op::kLookupLease, wire::Op::kGetattr})
      sum += std::exchange(asked_[op], 0);
    return sum;
  }
  /// From now on, between the client and the io servers.
  void set_data_latency(ClientProcess& process, Duration latency) {
    for (const ServerId id : world_.servers()) {
      if (id == kMetaServer) continue;
      world_.fabric().links().set_link(process.node(), id.value, {.latency = latency});
    }
  }
  /// Answered without asking anybody.
  bool kept(ClientProcess& process, const std::string& path) {
    return process.client().kept_attributes(path_from_root(path)).has_value();
  }
  client::AttributeCache::Counters counters(ClientProcess& process) {
    return process.client().cluster().attributes().counters();
  }

  SlowCopies copies_;
  std::map<wire::Op, std::uint64_t> asked_;
  World world_;
  ClientProcess* a_;
  ClientProcess* b_;
};

TEST_F(LeasesTest, WhatWasLookedUpIsAnsweredWithoutTheServer) {
  make_file(*b_, "f");
  EXPECT_FALSE(kept(*a_, "f"));
  ASSERT_OK(stat(*a_, "f"));
  EXPECT_TRUE(kept(*a_, "f"));
  EXPECT_ERRC(stat(*a_, "nothing"), Errc::kNotFound);
  EXPECT_TRUE(kept(*a_, "nothing"));
  world_.run_for(seconds(100));  // many times the length of a lease
  EXPECT_TRUE(kept(*a_, "f"));
  const auto before = counters(*a_);
  ASSERT_OK(stat(*a_, "f"));
  EXPECT_EQ(counters(*a_).hits, before.hits + 1);
}

TEST_F(LeasesTest, WhatAnOwnChangeHasMadeIsAnsweredWithoutTheServer) {
  client::Client& a = a_->client();
  ASSERT_OK(stat(*a_, ""));  // from here on it keeps what it is told
  ASSERT_OK(run(*a_, a.mkdir(path_from_root("d"), {})));
  make_file(*a_, "d/f");
  ASSERT_OK(chmod(*a_, "d/f", 0611));
  for (const char* path : {"d", "d/f", "d/nothing"}) EXPECT_TRUE(kept(*a_, path)) << path;
  EXPECT_FALSE(kept(*a_, "nothing"));  // others' names may be there
  EXPECT_EQ(stat(*a_, "d")->size, 1U);
  EXPECT_EQ(stat(*a_, "d/f")->mode, 0611U);
  EXPECT_ERRC(stat(*a_, "d/nothing"), Errc::kNotFound);
  EXPECT_EQ(counters(*a_).misses, 1U);
  ASSERT_OK(run(*a_, a.rename(path_from_root("d/f"), path_from_root("d/g"))));
  EXPECT_ERRC(stat(*a_, "d/f"), Errc::kNotFound);
  ASSERT_OK(run(*a_, a.unlink(path_from_root("d/g"))));
  EXPECT_ERRC(stat(*a_, "d/g"), Errc::kNotFound);
  EXPECT_EQ(stat(*a_, "d")->size, 0U);
}

TEST_F(LeasesTest, ANameThatAnotherAddsToADirectoryKnownWholeIsSeen) {
  client::Client& a = a_->client();
  client::Client& b = b_->client();
  ASSERT_OK(stat(*a_, ""));
  ASSERT_OK(run(*a_, a.mkdir(path_from_root("d"), {})));
  EXPECT_ERRC(stat(*a_, "d/f"), Errc::kNotFound);
  EXPECT_TRUE(kept(*a_, "d/f"));
  make_file(*b_, "d/f");
  ASSERT_OK(stat(*a_, "d/f"));
  EXPECT_FALSE(kept(*a_, "d/g"));  // nothing is known of other names any more
  ASSERT_OK(run(*a_, a.mkdir(path_from_root("e"), {})));
  make_file(*a_, "e/x");
  ASSERT_OK(run(*b_, b.rename(path_from_root("e/x"), path_from_root("e/y"))));
  EXPECT_ERRC(stat(*a_, "e/x"), Errc::kNotFound);
  EXPECT_OK(stat(*a_, "e/y"));
  make_file(*a_, "e/z");
  ASSERT_OK(chmod(*b_, "e/z", 0600));
  EXPECT_EQ(stat(*a_, "e/z")->mode, 0600U);
  ASSERT_OK(run(*b_, b.unlink(path_from_root("e/z"))));
  EXPECT_ERRC(stat(*a_, "e/z"), Errc::kNotFound);
}

TEST_F(LeasesTest, WhatWasListedIsAnsweredWithoutTheServer) {
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
  // Of what is being written the size is with its datafiles.
  EXPECT_EQ(listed.at("open").size, 3000U);
  EXPECT_FALSE(kept(*a_, "d/open"));
  ASSERT_OK(run(*b_, file->write(3000, Bytes(1000))));
  EXPECT_EQ(stat(*a_, "d/open")->size, 4000U);
  EXPECT_EQ(look_ups(), 0U);
  ASSERT_OK(run(*b_, file->close()));
  EXPECT_EQ(stat(*a_, "d/open")->size, 4000U);
  EXPECT_EQ(look_ups(), 1U);
}

TEST_F(LeasesTest, AnothersChangeOfWhatWasListedIsSeenAtOnce) {
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
  auto file = run(*b_, b.open(path_from_root("d/grown"), kWrite));
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

TEST_F(LeasesTest, AChangeAtAnyMomentOfAListingIsSeen) {
  client::Client& b = b_->client();
  const auto made = run(*b_, b.mkdir(path_from_root("d"), {}));
  ASSERT_OK(made);
  make_file(*b_, "d/f");
  ASSERT_OK(stat(*a_, "d/f"));
  // For each moment at which the change may come while the listing is on its way.
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

TEST_F(LeasesTest, WhoKeepsNothingAsksForNoLeasesWithAListing) {
  ClientProcess& c = world_.start_client(small_client_options({}, {}, {}));
  make_file(c, "f");
  EXPECT_EQ(list(c, kRootHandle).size(), 1U);
  EXPECT_EQ(asked_[wire::Op::kReaddir], 1U);
  EXPECT_EQ(asked_[wire::Op::kListLease], 0U);
}

/// Servers that know of leases, but not of listings that bring them.
class OldServersTest : public LeasesTest {
 protected:
  OldServersTest() : LeasesTest(old()) {}
  static WorldOptions old() {
    WorldOptions options;
    options.features = wire::kFeatureLeases | wire::kFeatureGrants;
    return options;
  }
};

TEST_F(OldServersTest, AreAskedForListingsAsEver) {
  make_file(*b_, "f");
  ASSERT_OK(stat(*a_, "f"));
  make_file(*b_, "g");
  EXPECT_EQ(list(*a_, kRootHandle).size(), 2U);
  EXPECT_EQ(asked_[wire::Op::kReaddir], 1U);
  EXPECT_EQ(asked_[wire::Op::kListLease], 0U);
  EXPECT_FALSE(kept(*a_, "g"));
  EXPECT_OK(stat(*a_, "g"));
}

TEST_F(LeasesTest, AStatOfWhatIsRemovedUnderItAnswersWhatStandsThereNow) {
  for (const bool replaced : {false, true}) {
    auto file = create(*b_, "f");
    ASSERT_NE(file, nullptr);
    ASSERT_OK(run(*b_, file->write(0, Bytes(3000))));
    if (replaced) {
      auto other = create(*b_, "g");
      ASSERT_NE(other, nullptr);
      ASSERT_OK(run(*b_, other->write(0, Bytes(500))));
      ASSERT_OK(run(*b_, other->close()));
    }
    EXPECT_EQ(stat(*a_, "f")->size, 3000U);
    // The name is looked up while the file is there; the question to its datafiles comes when they are not.
    set_data_latency(*a_, milliseconds(50));
    const auto outcome = begin_call(*a_, a_->client().stat(path_from_root("f")));
    world_.run_for(milliseconds(10));
    client::Client& b = b_->client();
    auto gone = replaced ? b.rename(path_from_root("g"), path_from_root("f")) : b.unlink(path_from_root("f"));
    ASSERT_OK(run(*b_, std::move(gone)));
    ASSERT_OK(run(*b_, file->close()));
    EXPECT_EQ(*outcome, std::nullopt);
    world_.run_for(seconds(5));
    ASSERT_NE(*outcome, std::nullopt);
    const Result<wire::ObjectReply>& found = **outcome;
    EXPECT_EQ(found.code(), replaced ? Errc::kOk : Errc::kNotFound);
    if (replaced) EXPECT_EQ(found->attributes.size, 500U);
    set_data_latency(*a_, bmi::sim::LinkOptions().latency);
  }
}

TEST_F(LeasesTest, EachKindOfChangeIsSeenByTheOtherOnceItIsAnswered) {
  client::Client& b = b_->client();
  ASSERT_OK(run(*b_, b.mkdir(path_from_root("d"), {})));
  EXPECT_ERRC(stat(*a_, "d/f"), Errc::kNotFound);
  auto file = create(*b_, "d/f");
  ASSERT_OK(stat(*a_, "d/f"));
  EXPECT_EQ(stat(*a_, "d")->size, 1U);
  const Bytes data(5000);
  ASSERT_OK(run(*b_, file->write(0, ByteView(data))));
  EXPECT_EQ(stat(*a_, "d/f")->size, 5000U);  // from the datafiles
  ASSERT_OK(run(*b_, file->write(5000, ByteView(data))));
  EXPECT_EQ(stat(*a_, "d/f")->size, 10000U);
  ASSERT_OK(run(*b_, file->close()));
  EXPECT_EQ(stat(*a_, "d/f")->size, 10000U);
  ASSERT_OK(stat(*a_, "d/f"));
  EXPECT_TRUE(kept(*a_, "d/f"));
  ASSERT_OK(chmod(*b_, "d/f", 0611));
  EXPECT_FALSE(kept(*a_, "d/f"));
  EXPECT_EQ(stat(*a_, "d/f")->mode, 0611U);
  ASSERT_OK(run(*b_, b.truncate(path_from_root("d/f"), 7)));
  EXPECT_EQ(stat(*a_, "d/f")->size, 7U);
  ASSERT_OK(run(*b_, b.link(path_from_root("d/f"), path_from_root("g"))));
  EXPECT_EQ(stat(*a_, "d/f")->link_count, 2U);
  EXPECT_EQ(stat(*a_, "g")->link_count, 2U);
  ASSERT_OK(run(*b_, b.unlink(path_from_root("d/f"))));
  EXPECT_ERRC(stat(*a_, "d/f"), Errc::kNotFound);
  EXPECT_EQ(stat(*a_, "g")->link_count, 1U);
  ASSERT_OK(run(*b_, b.rename(path_from_root("g"), path_from_root("d/h"))));
  EXPECT_ERRC(stat(*a_, "g"), Errc::kNotFound);
  ASSERT_OK(stat(*a_, "d/h"));
  ASSERT_OK(run(*b_, b.rename(path_from_root("d"), path_from_root("e"))));
  EXPECT_ERRC(stat(*a_, "d/h"), Errc::kNotFound);
  ASSERT_OK(stat(*a_, "e/h"));
  ASSERT_OK(run(*b_, b.unlink(path_from_root("e/h"))));
  ASSERT_OK(run(*b_, b.rmdir(path_from_root("e"))));
  EXPECT_ERRC(stat(*a_, "e"), Errc::kNotFound);
  EXPECT_GT(counters(*a_).recalls, 5U);
}

TEST_F(LeasesTest, AnOwnChangeIsSeenAtOnceAndWaitsForNobody) {
  ASSERT_OK(run(*a_, a_->client().mkdir(path_from_root("d"), {})));
  make_file(*a_, "d/f");
  make_file(*a_, "d/other");
  ASSERT_OK(stat(*a_, "d/f"));
  ASSERT_OK(stat(*a_, "d/other"));
  const MonoTime before = world_.now();
  ASSERT_OK(chmod(*a_, "d/f", 0601));
  EXPECT_EQ(stat(*a_, "d/f")->mode, 0601U);
  ASSERT_OK(run(*a_, a_->client().unlink(path_from_root("d/f"))));
  EXPECT_ERRC(stat(*a_, "d/f"), Errc::kNotFound);
  EXPECT_LT(world_.now() - before, milliseconds(100));
  EXPECT_TRUE(kept(*a_, "d/other"));  // other names in the directory are as they were
  EXPECT_EQ(counters(*a_).recalls, 0U);
}

TEST_F(LeasesTest, WhoDropsTheLastThatItKeepsSaysSo) {
  for (int round = 0; round < 3; ++round) {
    ASSERT_OK(run(*b_, b_->client().mkdir(path_from_root("d"), {})));
    ASSERT_OK(stat(*a_, "d"));
    world_.run_for(milliseconds(10));
    const MonoTime before = world_.now();
    ASSERT_OK(run(*b_, b_->client().rmdir(path_from_root("d"))));  // a kept this and the root, and nothing else
    EXPECT_LT(world_.now() - before, milliseconds(100));
  }
}

TEST_F(LeasesTest, AHolderThatIsGoneIsWaitedForAndTheChangeGoesOn) {
  make_file(*b_, "f");
  ASSERT_OK(stat(*a_, "f"));
  world_.kill_client(*a_, Death::kMachine);
  const MonoTime before = world_.now();
  Result<Attributes> done = chmod(*b_, "f", 0600);
  for (int i = 0; i < 5 && !done; ++i) done = chmod(*b_, "f", 0600);
  ASSERT_OK(done);
  EXPECT_LE(world_.now() - before, world_.settings().session_lease);
  const MonoTime after = world_.now();
  ASSERT_OK(chmod(*b_, "f", 0644));
  EXPECT_LT(world_.now() - after, milliseconds(100));
}

TEST_F(LeasesTest, WhoIsCutOffAnswersNothingThatMayHaveBeenChanged) {
  make_file(*b_, "f");
  ASSERT_OK(stat(*a_, "f"));
  EXPECT_TRUE(kept(*a_, "f"));
  world_.fabric().kill_node(a_->node(), Death::kMachine);  // it lives on, and hears nobody
  Result<Attributes> done = chmod(*b_, "f", 0600);
  for (int i = 0; i < 5 && !done; ++i) done = chmod(*b_, "f", 0600);
  ASSERT_OK(done);
  EXPECT_FALSE(kept(*a_, "f"));
  world_.kill_client(*a_, Death::kMachine);
}

TEST_F(LeasesTest, AfterARestartOfTheServerNothingOldIsAnswered) {
  make_file(*b_, "f");
  ASSERT_OK(stat(*a_, "f"));
  world_.kill_server(kMetaServer, Death::kProcess);
  world_.run_for(milliseconds(200));
  world_.start_server(kMetaServer);
  Result<Attributes> done = chmod(*b_, "f", 0600);
  for (int i = 0; i < 5 && !done; ++i) done = chmod(*b_, "f", 0600);
  ASSERT_OK(done);
  EXPECT_EQ(stat(*a_, "f")->mode, 0600U);
  ASSERT_OK(chmod(*b_, "f", 0611));
  EXPECT_EQ(stat(*a_, "f")->mode, 0611U);
}

TEST_F(LeasesTest, AChangeWaitsUntilCopiesElsewhereAreDropped) {
  SlowCopies& copies = copies_;
  client::Options options = small_client_options({}, {}, {});
  options.keep_attributes = true;
  options.copies = &copies;
  ClientProcess& c = world_.start_client(std::move(options));
  make_file(*b_, "f");
  for (ClientProcess* const who : {b_, &c}) {
    const auto known = stat(c, "f");
    ASSERT_OK(known);
    ASSERT_NE(c.client().cluster().attributes().copy_attributes(known->handle), std::nullopt);
    bool done = false;
    const auto chmod = [](client::Client& client, std::uint32_t mode, bool& out) -> job::Task<void> {
      wire::SetattrRequest request;
      request.where = path_from_root("f");
      request.mode = mode;
      out = (co_await client.setattr(request)).has_value();
    };
    const std::uint32_t mode = who == b_ ? 0600 : 0611;
    job::spawn(who->gate(), chmod(who->client(), mode, done));
    world_.run_for(milliseconds(300));  // shorter than a lease
    EXPECT_TRUE(copies.dropping());
    EXPECT_FALSE(done);                     // a recall of another's change, and an own change
    EXPECT_NE(stat(*b_, "f")->mode, mode);  // nor is it made and not told
    copies.drop();
    world_.run_for(milliseconds(100));
    EXPECT_TRUE(done);
    EXPECT_EQ(stat(c, "f")->mode, mode);
    EXPECT_FALSE(copies.dropping());
  }
}

/// A model of modes and names; whichever client looks, it sees the last change of either.
TEST_F(LeasesTest, WhatTwoClientsSeeIsWhatAModelSays) {
  SeededRandom random(4);
  std::map<std::string, std::uint32_t> model;
  const auto name = [&] { return "f" + std::to_string(random.below(6)); };
  for (int step = 0; step < 1500; ++step) {
    ClientProcess& who = random.chance(1, 2) ? *a_ : *b_;
    const std::string path = name();
    const std::uint64_t what = random.below(10);
    const std::uint32_t mode = static_cast<std::uint32_t>(random.below(0777)) | 0600U;
    if (what == 0) {
      wire::CreateRequest request;
      request.where = path_from_root(path);
      request.open_flags = wire::kOpenExclusive;
      request.type = FileType::kFifo;
      request.attributes.mode = mode;
      const auto made = run(who, who.client().make_node(request));
      ASSERT_EQ(made.has_value(), !model.contains(path));
      if (made) model[path] = mode;
    } else if (what == 1) {
      ASSERT_EQ(run(who, who.client().unlink(path_from_root(path))).has_value(), model.erase(path) == 1);
    } else if (what == 2) {
      const auto changed = chmod(who, path, mode);
      ASSERT_EQ(changed.has_value(), model.contains(path));
      if (changed) model[path] = mode;
    } else if (what == 3) {
      const std::string to = name();
      const bool there = model.contains(path);
      ASSERT_EQ(run(who, who.client().rename(path_from_root(path), path_from_root(to))).has_value(), there);
      if (there && to != path) {
        model[to] = model[path];
        model.erase(path);
      }
    } else if (what == 4) {
      std::map<std::string, std::uint32_t> seen;
      for (const auto& [entry, attributes] : list(who, kRootHandle)) seen[entry] = attributes.mode;
      ASSERT_EQ(seen, model) << "at step " << step;
    } else {
      const auto seen = stat(who, path);
      ASSERT_EQ(seen.has_value(), model.contains(path)) << path << " at step " << step;
      if (seen) ASSERT_EQ(seen->mode, model[path]) << path << " at step " << step;
    }
  }
  EXPECT_GT(counters(*a_).hits, 50U);
  EXPECT_GT(counters(*b_).recalls, 50U);
}

}  // namespace
}  // namespace spate::cluster
