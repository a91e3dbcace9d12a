// SPDX-License-Identifier: Apache-2.0
// Operations that overlap, in many orders: the name space must stay a consistent tree.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/expect.h"
#include "server/meta/testing/fs_test.h"

namespace spate::meta {
namespace {

TestFsOptions overlapping(std::uint64_t seed) {
  TestFsOptions options;
  options.seed = seed;
  options.overlap = true;
  return options;
}

/// Operations that run at the same time. run() ends when all have ended; then their outcomes are known.
class ConcurrentOperations {
 public:
  explicit ConcurrentOperations(TestFs& fs) : fs_(fs), gate_(fs.executor) {}

  template <typename Reply, typename Request>
  void add(Request request, Credential who = alice(), wire::RequestId id = {}) {
    outcomes_.push_back(std::make_unique<Errc>(Errc::kUnknown));
    job::spawn(gate_, note(fs_.ask<Reply>(std::move(who), std::move(request), id), *outcomes_.back()));
  }
  void spawn(job::Task<void> task) { job::spawn(gate_, std::move(task)); }
  std::vector<Errc> run() {
    fs_.drive(gate_);
    std::vector<Errc> codes;
    for (const auto& outcome : outcomes_) codes.push_back(*outcome);
    return codes;
  }

 private:
  template <typename T>
  static job::Task<void> note(job::Task<T> task, Errc& out) {
    const auto result = co_await std::move(task);
    out = result.code();
  }
  TestFs& fs_;
  job::Gate gate_;
  std::vector<std::unique_ptr<Errc>> outcomes_;
};

wire::CreateRequest create_request(std::string path, std::uint8_t flags = wire::kOpenExclusive) {
  wire::CreateRequest request;
  request.where = at(std::move(path));
  request.attributes.mode = 0644;
  request.open_flags = flags;
  return request;
}

template <typename Request>
Request path_request(std::string path) {
  Request request;
  request.where = at(std::move(path));
  if constexpr (requires { request.attributes.mode; }) request.attributes.mode = 0755;
  return request;
}

/// Walks the whole tree and checks the invariants; returns the number of objects.
class Auditor {
 public:
  explicit Auditor(TestFs& fs) : user_(fs, root_user()) {}

  std::size_t check() {
    visit(kRootHandle, kRootHandle);
    for (const auto& [handle, names] : files_) {
      EXPECT_EQ(user_.getattr(handle)->attributes.link_count, names) << "of file " << handle.value;
    }
    const std::size_t seen = directories_.size() + files_.size();
    EXPECT_EQ(user_.statfs()->objects, seen) << "something is cut off from the root";
    return seen;
  }

 private:
  void visit(Handle directory, Handle parent) {
    ASSERT_TRUE(directories_.insert(directory).second) << "a directory with two names, or a loop";
    const auto attributes = user_.getattr(directory);
    ASSERT_OK(attributes);
    const auto page = user_.readdir(directory);
    ASSERT_OK(page);
    ASSERT_TRUE(page->end) << page->entries.size() << " entries";
    EXPECT_EQ(page->parent, parent);
    EXPECT_EQ(attributes->attributes.size, page->entries.size());
    std::uint32_t subdirectories = 0;
    for (const wire::DirectoryEntry& entry : page->entries) {
      if (entry.type == FileType::kDirectory) {
        ++subdirectories;
        visit(entry.handle, directory);
      } else {
        ++files_[entry.handle];
      }
    }
    EXPECT_EQ(attributes->attributes.link_count, 2 + subdirectories);
  }

  User user_;
  std::set<Handle> directories_;
  std::map<Handle, std::uint32_t> files_;
};

/// Sends the request as a mount does: from a directory whose handle it has, so that no names on the path to it are
/// read.
wire::RenameRequest rename_by_handles(User& user, std::string from, std::string to, const std::string& name) {
  wire::RenameRequest request = rename_request(name, name);
  request.from.start = user.stat(std::move(from))->attributes.handle;
  request.to.start = user.stat(std::move(to))->attributes.handle;
  return request;
}

void expect_no_loop(bool by_handles) {
  int both_failed = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    TestFs fs(overlapping(seed));
    User user(fs, alice());
    // Neither rename changes a directory that the other one changes; only their ancestors conflict.
    for (const char* path : {"p", "p/a", "p/a/x", "q", "q/b", "q/b/y"}) ASSERT_OK(user.mkdir(path));
    wire::RenameRequest first =
        by_handles ? rename_by_handles(user, "p", "q/b/y", "a") : rename_request("p/a", "q/b/y/a");
    wire::RenameRequest second =
        by_handles ? rename_by_handles(user, "q", "p/a/x", "b") : rename_request("q/b", "p/a/x/b");
    ConcurrentOperations operations(fs);
    operations.add<wire::Empty>(std::move(first));
    operations.add<wire::Empty>(std::move(second));
    const auto codes = operations.run();
    EXPECT_THAT(codes, ::testing::Contains(::testing::Ne(Errc::kOk))) << "seed " << seed;
    both_failed += codes[0] != Errc::kOk && codes[1] != Errc::kOk ? 1 : 0;
    EXPECT_EQ(Auditor(fs).check(), 7U) << "seed " << seed;
  }
  EXPECT_EQ(both_failed, 0);
}

TEST(MetaRaces, TwoRenamesCannotMakeALoop) {
  expect_no_loop(false);
  expect_no_loop(true);
}

TEST(MetaRaces, RmdirAndCreateCannotBothWin) {
  int created = 0;
  int removed = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    TestFs fs(overlapping(seed));
    User user(fs, alice());
    ASSERT_OK(user.mkdir("d"));
    ConcurrentOperations operations(fs);
    operations.add<wire::Empty>(path_request<wire::RmdirRequest>("d"));
    operations.add<wire::OpenReply>(create_request("d/f"));
    const auto codes = operations.run();
    EXPECT_EQ((codes[0] == Errc::kOk) + (codes[1] == Errc::kOk), 1) << "seed " << seed;
    if (codes[1] == Errc::kOk) {
      ++created;
      EXPECT_EQ(codes[0], Errc::kNotEmpty);
    } else {
      ++removed;
      EXPECT_THAT(codes[1], ::testing::AnyOf(Errc::kNotFound, Errc::kStaleHandle));
    }
    Auditor(fs).check();
  }
  EXPECT_GT(created, 20);
  EXPECT_GT(removed, 20);
}

/// The path to a name is part of the operation. A create must not succeed in a place that its path had before a rename
/// that was already answered.
TEST(MetaRaces, ACreateAndARenameOfItsPathHaveAnOrder) {
  const auto detours = [](std::string_view detour, std::uint64_t times) {
    std::string way;
    for (std::uint64_t i = 0; i < times; ++i) way += detour;
    return way;
  };
  const auto rename_and_look = [](TestFs& fs, std::string from, Errc& renamed, Errc& seen) -> job::Task<void> {
    auto rename = rename_request(std::move(from), "b");
    auto moved = co_await fs.ask<wire::Empty>(alice(), std::move(rename), {});
    renamed = moved.code();
    auto look = path_request<wire::LookupRequest>("b/d/f");
    auto found = co_await fs.ask<wire::ObjectReply>(alice(), std::move(look), {});
    seen = found.code();
  };
  int created = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    TestFs fs(overlapping(seed));
    User user(fs, alice());
    ASSERT_OK(user.mkdir("a"));
    ASSERT_OK(user.mkdir("a/d"));
    Errc renamed = Errc::kUnknown;
    Errc seen = Errc::kUnknown;
    ConcurrentOperations operations(fs);
    operations.add<wire::OpenReply>(create_request("a/" + detours("d/../", seed % 20) + "d/f"));
    operations.spawn(rename_and_look(fs, detours("a/../", seed / 20) + "a", renamed, seen));
    const auto codes = operations.run();
    EXPECT_EQ(renamed, Errc::kOk);
    EXPECT_THAT(codes[0], ::testing::AnyOf(Errc::kOk, Errc::kNotFound));
    EXPECT_EQ(seen, codes[0]) << "seed " << seed;
    created += codes[0] == Errc::kOk ? 1 : 0;
  }
  EXPECT_GT(created, 20);
  EXPECT_LT(created, 280);
}

TEST(MetaRaces, OneOfManyExclusiveCreatesWins) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    TestFs fs(overlapping(seed));
    ConcurrentOperations operations(fs);
    for (int i = 0; i < 8; ++i) operations.add<wire::OpenReply>(create_request("f"));
    const auto codes = operations.run();
    EXPECT_EQ(std::count(codes.begin(), codes.end(), Errc::kOk), 1);
    EXPECT_EQ(std::count(codes.begin(), codes.end(), Errc::kExists), 7);
    EXPECT_EQ(Auditor(fs).check(), 2U);
  }
}

TEST(MetaRaces, CreatesInOneDirectoryFollowEachOtherWithoutConflicts) {
  TestFs fs(overlapping(5));
  std::size_t before = fs.store.commits;
  User user(fs, alice());
  ASSERT_OK(user.mkdir("d"));
  before = fs.store.commits;
  ConcurrentOperations operations(fs);
  for (int i = 0; i < 100; ++i) operations.add<wire::OpenReply>(create_request("d/f" + std::to_string(i)));
  for (const Errc code : operations.run()) EXPECT_EQ(code, Errc::kOk);
  EXPECT_EQ(fs.store.commits - before, 100U);  // each won at its first attempt
  EXPECT_EQ(Auditor(fs).check(), 102U);
  EXPECT_EQ(fs.core->locks().size(), 0U);
}

TEST(MetaRaces, LinkAndUnlinkOfTheLastName) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    TestFs fs(overlapping(seed));
    User user(fs, alice());
    ASSERT_OK(user.mkdir("d"));
    ASSERT_OK(user.create_written("f"));
    ConcurrentOperations operations(fs);
    wire::LinkRequest link;
    link.existing = at("f");
    link.where = at("d/g");
    operations.add<wire::ObjectReply>(link);
    operations.add<wire::ObjectReply>(path_request<wire::UnlinkRequest>("f"));
    const auto codes = operations.run();
    EXPECT_EQ(codes[1], Errc::kOk);
    EXPECT_EQ(user.stat("d/g").has_value(), codes[0] == Errc::kOk);
    EXPECT_EQ(fs.fakes.removals.handles.empty(), codes[0] == Errc::kOk);
    Auditor(fs).check();
  }
}

/// Another client has leases on what is changed, and takes some milliseconds to drop them.
class SlowHolders final : public Leases {
 public:
  explicit SlowHolders(TestFs& fs) : fs_(fs) {}
  job::Task<Result<wire::LookupLeaseReply>> look_up(Operation&, const wire::LookupLeaseRequest&) override {
    co_return Errc::kNotSupported;
  }
  job::Task<Result<wire::ListLeaseReply>> list(Operation&, const wire::ListLeaseRequest&) override {
    co_return Errc::kNotSupported;
  }
  job::Task<Result<void>> recall(Operation& operation) override {
    const auto span = std::chrono::milliseconds(fs_.random.below(8));
    auto slept = co_await fs_.executor.sleep(span, operation.call().stop);
    co_return slept;
  }
  void begin_change(Handle) override {}
  void end_change(Handle, bool) override {}
  void heard(ClientId, std::uint32_t, bool) override {}
  void acknowledged(ClientId, std::uint32_t, const wire::SessionEvent&) override {}
  job::Task<Result<void>> release(ClientId, std::uint32_t, job::StopToken) override { co_return {}; }

 private:
  TestFs& fs_;
};

TEST(MetaRaces, AnOpenBesideTheUnlinkOfTheLastNameKeepsTheFileOrFails) {
  int opened = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    TestFs fs(overlapping(seed));
    User user(fs, alice());
    ASSERT_OK(user.create_written("f"));
    fs.fakes.opens.begun.clear();
    SlowHolders holders(fs);
    fs.core->parts().leases = &holders;
    ConcurrentOperations operations(fs);
    wire::OpenRequest open;
    open.where = at("f");
    open.open_flags = wire::kOpenRead;
    operations.add<wire::OpenReply>(open);
    operations.add<wire::ObjectReply>(path_request<wire::UnlinkRequest>("f"));
    const auto codes = operations.run();
    EXPECT_EQ(codes[1], Errc::kOk);
    EXPECT_EQ(fs.fakes.removals.handles.empty(), codes[0] == Errc::kOk) << "seed " << seed;
    fs.core->parts().leases = nullptr;
    opened += codes[0] == Errc::kOk ? 1 : 0;
  }
  EXPECT_GT(opened, 0);
  EXPECT_LT(opened, 200);
}

/// A path of few possible names, so that operations meet.
std::string some_short_path(Random& random) {
  static const char* const names[] = {"a", "b", "c"};
  std::string path = names[random.below(3)];
  for (std::uint64_t depth = random.below(3); depth > 0; --depth) path += std::string("/") + names[random.below(3)];
  return path;
}

void add_some_operation(ConcurrentOperations& operations, Random& random) {
  const std::string path = some_short_path(random);
  switch (random.below(8)) {
    case 0:
    case 1: return operations.add<wire::ObjectReply>(path_request<wire::MkdirRequest>(path));
    case 2: return operations.add<wire::OpenReply>(create_request(path));
    case 3: return operations.add<wire::ObjectReply>(path_request<wire::UnlinkRequest>(path));
    case 4: return operations.add<wire::Empty>(path_request<wire::RmdirRequest>(path));
    case 5: {
      wire::LinkRequest link;
      link.existing = at(path);
      link.where = at(some_short_path(random));
      return operations.add<wire::ObjectReply>(link);
    }
    case 6: return operations.add<wire::Empty>(rename_request(path, some_short_path(random), wire::kRenameExchange));
    default: return operations.add<wire::Empty>(rename_request(path, some_short_path(random)));
  }
}

TEST(MetaRaces, TheTreeStaysConsistentWhateverOverlaps) {
  std::size_t most = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    TestFs fs(overlapping(seed));
    SeededRandom random(seed + 1000);
    for (int round = 0; round < 4; ++round) {
      ConcurrentOperations operations(fs);
      for (int i = 0; i < 12; ++i) add_some_operation(operations, random);
      for (const Errc code : operations.run()) {
        EXPECT_NE(code, Errc::kCorrupt) << "seed " << seed;
        EXPECT_NE(code, Errc::kBusy) << "seed " << seed;
      }
    }
    most = std::max(most, Auditor(fs).check());
    if (HasFailure()) {
      FAIL() << "seed " << seed;
    }
  }
  EXPECT_GE(most, 6U);
}

TEST(MetaLocks, AHolderNeverWaits) {
  ManualClock clock;
  job::Executor executor(clock);
  DirectoryLocks table(executor);
  {
    LockSet first(table);
    LockSet second(table);
    EXPECT_TRUE(first.try_take({Handle(1), Handle(2), Handle(1)}));
    EXPECT_TRUE(first.try_take({Handle(2)}));
    EXPECT_TRUE(second.try_take({Handle(3)}));
    EXPECT_FALSE(second.try_take({Handle(2), Handle(4)}));
    EXPECT_TRUE(first.try_take({Handle(4)})) << "a failed attempt must hold nothing";
    EXPECT_EQ(table.size(), 4U);
  }
  EXPECT_EQ(table.size(), 0U);
}

TEST(MetaLocks, AWaiterThatIsStoppedHoldsNothing) {
  ManualClock clock;
  job::Executor executor(clock);
  DirectoryLocks table(executor);
  job::StopSource stop;
  job::Gate gate(executor);
  Errc outcome = Errc::kOk;
  LockSet holder(table);
  LockSet waiter(table);
  ASSERT_TRUE(holder.try_take({Handle(2)}));
  struct Waits {
    static job::Task<void> run(LockSet& locks, job::StopToken token, Errc& out) {
      std::vector<Handle> wanted{Handle(2), Handle(1)};
      const auto waited = co_await locks.wait_for(std::move(wanted), token);
      out = waited.code();
    }
  };
  job::spawn(gate, Waits::run(waiter, stop, outcome));
  EXPECT_EQ(table.size(), 2U);
  stop.request_stop(Errc::kTimeout);
  while (executor.step()) {
  }
  EXPECT_EQ(outcome, Errc::kTimeout);
  EXPECT_EQ(table.size(), 1U);
}

}  // namespace
}  // namespace spate::meta
