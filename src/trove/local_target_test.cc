// SPDX-License-Identifier: Apache-2.0
// LocalTarget: a killed process, several users at once, foreign names, the bounded cache.
#include "trove/local_target.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/expect.h"
#include "trove/datafile_name.h"
#include "trove/local_bytestreams.h"

namespace spate::trove {
namespace {

constexpr TargetIdentity kIdentity{FsId(1), TargetId(1)};

class LocalTargetTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(root_.data()), nullptr);
    ASSERT_OK(create_target(path(), kIdentity));
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  std::string path() const { return root_ + "/target"; }

  std::shared_ptr<LocalTarget> open(std::size_t max_open = 100) {
    LocalTargetOptions options;
    options.max_open_datafiles = max_open;
    return LocalTarget::open(path(), kIdentity, options).value();
  }

  static DatafileId id(std::uint64_t handle) { return {Handle(handle), 0}; }

  static BytestreamCompletion write(LocalTarget& target, const DatafileId& id, WallTime now, std::size_t size = 100) {
    Bytes data(size, std::byte{1});
    const std::array<Extent, 1> extents{{{0, size}}};
    const std::array<MutableByteView, 1> memory{data};
    BytestreamRequest request;
    request.op = BytestreamOp::kWrite;
    request.id = id;
    request.extents = extents;
    request.memory = memory;
    request.now = now;
    BytestreamCompletion done;
    execute(target.store(), request, done);
    EXPECT_EQ(done.status, Errc::kOk);
    return done;
  }
  static BytestreamStat stat(LocalTarget& target, const DatafileId& id) {
    BytestreamRequest request;
    request.id = id;
    BytestreamCompletion done;
    execute(target.store(), request, done);
    EXPECT_EQ(done.status, Errc::kOk);
    return done.stat;
  }

  /// Runs `work` on the target in a child that is killed with the target still open, and returns what it reported.
  template <typename Work>
  std::array<std::uint64_t, 2> in_killed_process(Work work, std::size_t max_open = 100) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const std::shared_ptr<LocalTarget> target = open(max_open);
      const std::array<std::uint64_t, 2> report = work(*target);
      if (::write(ends[1], report.data(), sizeof report) < 0) ::_exit(1);
      ::raise(SIGKILL);
    }
    ::close(ends[1]);
    std::array<std::uint64_t, 2> report{};
    EXPECT_EQ(::read(ends[0], report.data(), sizeof report), static_cast<ssize_t>(sizeof report));
    ::close(ends[0]);
    EXPECT_EQ(::waitpid(child, nullptr, 0), child);
    return report;
  }

  // Far from the local clock, in both directions: the restored time must be the file system's, not the kernel's.
  static constexpr WallTime kPast{1'000'000'000'123'456'789};
  static constexpr WallTime kFuture{4'000'000'000'123'456'789};

  std::string root_ = "/dev/shm/spate-local-XXXXXX";
};

TEST_F(LocalTargetTest, KilledProcessKeepsCountersAndTimesExactly) {
  for (const WallTime now : {kPast, kFuture}) {
    const DatafileId one = id(static_cast<std::uint64_t>(now.ns));
    const auto report = in_killed_process([&](LocalTarget& target) {
      write(target, one, now);
      const BytestreamStat last = write(target, one, now).stat;
      return std::array<std::uint64_t, 2>{last.change_counter, static_cast<std::uint64_t>(last.mtime.ns)};
    });
    for (int restarts = 0; restarts < 3; ++restarts) {
      const BytestreamStat found = stat(*open(), one);
      EXPECT_EQ(found.change_counter, report[0]);
      EXPECT_EQ(found.mtime.ns, static_cast<std::int64_t>(report[1]));
      EXPECT_EQ(found.mtime, now);
    }
  }
}

TEST_F(LocalTargetTest, ChangeUnderWayAtTheKillLooksChanged) {
  const auto report = in_killed_process([&](LocalTarget& target) {
    write(target, id(1), kFuture);
    const DatafileStore::Datafile datafile = target.store().find(id(1));
    datafile->begin_change(kFuture);
    return std::array<std::uint64_t, 2>{datafile->change_counter(), 0};
  });
  EXPECT_GT(stat(*open(), id(1)).change_counter, report[0]);
}

TEST_F(LocalTargetTest, MoreDirtyDatafilesThanRecords) {
  const auto report = in_killed_process(
      [&](LocalTarget& target) {
        std::vector<DatafileStore::Datafile> in_use;
        std::array<std::uint64_t, 2> last{};
        for (std::uint64_t i = 1; i <= 5; ++i) {
          last[0] = write(target, id(i), kFuture).stat.change_counter;
          in_use.push_back(target.store().find(id(i)));
        }
        return last;
      },
      1);  // two records
  const std::shared_ptr<LocalTarget> target = open();
  EXPECT_EQ(stat(*target, id(5)).change_counter, report[0]);
}

TEST_F(LocalTargetTest, UnknownHistoryGetsAGreaterCounter) {
  // Another program wrote the file, or the machine crashed: there is no record.
  const BytestreamStat before = write(*open(), id(1), kPast).stat;
  std::filesystem::remove(path() + "/changes");
  const std::string file = path() + "/d/" + DatafilePath(id(1)).c_str();
  const UniqueFd fd(::open(file.c_str(), O_WRONLY));
  ASSERT_EQ(::pwrite(fd.get(), "x", 1, 0), 1);
  EXPECT_GT(stat(*open(), id(1)).change_counter, before.change_counter);
}

TEST_F(LocalTargetTest, RecordsOfAnotherBootAreALowerBound) {
  const auto report = in_killed_process([&](LocalTarget& target) {
    return std::array<std::uint64_t, 2>{write(target, id(1), kFuture).stat.change_counter, 0};
  });
  const UniqueFd fd(::open((path() + "/changes").c_str(), O_WRONLY));
  ASSERT_EQ(::pwrite(fd.get(), "00000000", 8, 12), 8);  // within the boot id
  EXPECT_GT(stat(*open(), id(1)).change_counter, report[0]);
}

TEST_F(LocalTargetTest, DamagedRecordsDoNotStopTheStart) {
  const BytestreamStat before = write(*open(), id(1), kPast).stat;
  for (const std::string& content : {std::string("short"), std::string(9000, 'x'), std::string()}) {
    std::ofstream(path() + "/changes", std::ios::trunc | std::ios::binary) << content;
    EXPECT_EQ(stat(*open(), id(1)).change_counter, before.change_counter);
  }
}

TEST_F(LocalTargetTest, KeepsToItsLimitOfOpenDatafiles) {
  const std::shared_ptr<LocalTarget> target = open(5);
  std::vector<std::uint64_t> counters;
  for (std::uint64_t i = 1; i <= 50; ++i) {
    counters.push_back(write(*target, id(i), kPast).stat.change_counter);
    EXPECT_LE(target->store().open_count(), 5U);
  }
  for (std::uint64_t i = 1; i <= 50; ++i) EXPECT_EQ(stat(*target, id(i)).change_counter, counters[i - 1]);
}

/// After a new datafile the store guesses that the next one is new, too.
TEST_F(LocalTargetTest, ADatafileBetweenNewOnesKeepsItsHistory) {
  const auto target = open(1);  // so that each of them is opened again
  std::uint64_t counter = write(*target, id(1), kPast).stat.change_counter;
  const std::uint64_t step = write(*target, id(1), kPast).stat.change_counter - counter;  // of one write
  counter = write(*target, id(1), kPast).stat.change_counter;
  for (std::uint64_t next = 2; next < 6; ++next) {
    const std::uint64_t first = write(*target, id(next), kPast).stat.change_counter;
    EXPECT_LT(first, counter);
    const std::uint64_t again = write(*target, id(1), kPast).stat.change_counter;
    EXPECT_EQ(again, counter + step) << "after " << next;
    counter = again;
    EXPECT_EQ(write(*target, id(next), kPast).stat.change_counter, first + step) << "of " << next;
    counter = write(*target, id(1), kPast).stat.change_counter;
  }
}

TEST_F(LocalTargetTest, ListingsLeaveOutNamesThatAreNotOfDatafiles) {
  const std::shared_ptr<LocalTarget> target = open();
  write(*target, id(1), kPast);
  std::ofstream(path() + "/d/00/README") << "hello";
  std::ofstream(path() + "/d/00/0000000000000001.0") << "in the wrong folder";
  EXPECT_EQ(target->store().list({}, 10).value(), std::vector<DatafileId>{id(1)});
}

TEST_F(LocalTargetTest, WrongModeIsPutRight) {
  write(*open(), id(1), kPast);
  const std::string file = path() + "/d/" + DatafilePath(id(1)).c_str();
  ASSERT_EQ(::chmod(file.c_str(), 0666), 0);
  stat(*open(), id(1));
  struct stat st{};
  ASSERT_EQ(::stat(file.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777U, 0600U);
}

TEST_F(LocalTargetTest, LinksAreNotFollowed) {
  const std::string file = path() + "/d/" + DatafilePath(id(1)).c_str();
  ASSERT_EQ(::symlink("/etc/hostname", file.c_str()), 0);
  const std::shared_ptr<LocalTarget> target = open();
  EXPECT_ERRC(target->store().open(id(1), true), Errc::kSymlinkLoop);
  std::filesystem::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_ERRC(target->store().open(id(1), true), Errc::kCorrupt);
}

/// Gives the process mounts of its own; for an ordinary user in a user name space, as the same user.
bool unshare_mounts() {
  if (::geteuid() == 0)
    return ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << uid << " " << uid << " 1";
  std::ofstream("/proc/self/gid_map") << gid << " " << gid << " 1";
  return ::geteuid() == uid && ::getegid() == gid;
}

/// Fills a file system of 1.5 MB. Returns 77 if mounting is not allowed here, 0 on success, else the number of the
/// check that failed.
int fill_small_file_system(const std::string& path) {
  if (!unshare_mounts()) return 77;
  if (::mount("tmpfs", path.c_str(), "tmpfs", 0, "size=1500k,mode=0700") != 0) return 77;
  if (!create_target(path + "/small", kIdentity)) return 1;
  LocalTargetOptions options;
  options.max_open_datafiles = 10;
  const Result<std::shared_ptr<LocalTarget>> target = LocalTarget::open(path + "/small", kIdentity, options);
  if (!target) return 2;
  Bytes data(1'000'000, std::byte{7});
  const auto run = [&](BytestreamOp op, std::uint64_t offset) {
    const std::array<Extent, 1> extents{{{offset, data.size()}}};
    const std::array<MutableByteView, 1> memory{data};
    BytestreamRequest request;
    request.op = op;
    request.id = {Handle(1), 0};
    request.extents = extents;
    request.memory = memory;
    BytestreamCompletion done;
    execute((*target)->store(), request, done);
    return done;
  };
  if (run(BytestreamOp::kWrite, 0).status != Errc::kOk) return 3;
  const std::uint64_t counter = run(BytestreamOp::kStat, 0).stat.change_counter;
  std::fill(data.begin(), data.end(), std::byte{8});
  if (run(BytestreamOp::kWrite, 1'000'000).status != Errc::kNoSpace) return 4;
  if (run(BytestreamOp::kStat, 0).stat.change_counter <= counter) return 5;  // a part of it may have been written
  if (run(BytestreamOp::kAllocate, 8'000'000).status != Errc::kNoSpace) return 6;
  if (run(BytestreamOp::kRead, 0).bytes != data.size()) return 7;
  return data == Bytes(1'000'000, std::byte{7}) ? 0 : 8;
}

TEST_F(LocalTargetTest, FullFileSystemKeepsEarlierData) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(fill_small_file_system(root_));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no mount name space for this user";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

class ThreadStore final : public LocalBytestreams {
 public:
  using LocalBytestreams::LocalBytestreams;
  std::string describe() const override { return "threads"; }
};

/// Fills a file system of 1.5 MB, of which an eighth is kept. Returns as fill_small_file_system() does.
int overwrite_on_full_file_system(const std::string& path) {
  if (!unshare_mounts()) return 77;
  if (::mount("tmpfs", path.c_str(), "tmpfs", 0, "size=1500k,mode=0700") != 0) return 77;
  if (!create_target(path + "/small", kIdentity)) return 1;
  const Result<std::shared_ptr<LocalTarget>> target = LocalTarget::open(path + "/small", kIdentity, {});
  if (!target) return 2;
  ThreadStore store(*target, {});
  Bytes data(1'000'000, std::byte{7});
  const auto run = [&](BytestreamOp op, std::uint64_t offset) {
    const std::array<Extent, 1> extents{{{offset, data.size()}}};
    const std::array<MutableByteView, 1> memory{data};
    BytestreamRequest request;
    request.op = op;
    request.id = {Handle(1), 0};
    request.extents = extents;
    request.memory = memory;
    BytestreamCompletion done;
    if (!store.post(request, nullptr, done)) {
      while (store.test({&done, 1}) == 0) std::this_thread::yield();
    }
    return done;
  };
  if (run(BytestreamOp::kWrite, 0).status != Errc::kOk) return 3;
  const std::uint64_t counter = run(BytestreamOp::kStat, 0).stat.change_counter;
  if (run(BytestreamOp::kWrite, 1'000'000).status != Errc::kNoSpace) return 4;
  if (run(BytestreamOp::kWrite, 900'000).status != Errc::kNoSpace) return 5;
  if (run(BytestreamOp::kStat, 0).stat.change_counter != counter) return 6;  // nothing of them has been written
  std::fill(data.begin(), data.end(), std::byte{8});
  if (run(BytestreamOp::kWrite, 0).status != Errc::kOk) return 7;
  std::fill(data.begin(), data.end(), std::byte{0});
  if (run(BytestreamOp::kRead, 0).bytes != data.size()) return 8;
  return data == Bytes(1'000'000, std::byte{8}) ? 0 : 9;
}

TEST_F(LocalTargetTest, FullFileSystemTakesOverwrites) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(overwrite_on_full_file_system(root_));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no mount name space for this user";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(LocalTargetTest, SeveralThreadsShareOne) {
  const std::shared_ptr<LocalTarget> target = open(3);
  constexpr std::uint64_t kThreads = 4;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 300; ++i) {
        write(*target, id(1 + i % 10), WallTime{static_cast<std::int64_t>(1 + i)}, 1 + t);
        if (i % 17 == t) EXPECT_EQ(target->store().remove(id(1 + i % 10)), Errc::kOk);
        if (i % 5 == 0) stat(*target, id(1 + (i + t) % 10));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(target->store().open_count(), 3 + kThreads);
  EXPECT_LE(target->store().list({}, 100).value().size(), 10U);
}

}  // namespace
}  // namespace spate::trove
