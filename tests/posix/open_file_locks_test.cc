// SPDX-License-Identifier: Apache-2.0
// The locks of one open file: what the calls of flock(2) and fcntl(2) mean, and what a close releases.
#include "posix/open_file_locks.h"

#include <sys/file.h>
#include <unistd.h>

#include "base/expect.h"
#include "tests/cluster/calls.h"

namespace spate::posix_test {
namespace {

using posix::OpenFileLocks;
using posix::RecordLock;

constexpr std::uint64_t kToEnd = LockRange::kToEnd;

RecordLock record_lock(short type, std::int64_t start, std::int64_t size) {
  RecordLock lock;
  lock.range.l_type = type;
  lock.range.l_start = start;
  lock.range.l_len = size;
  lock.process = 5;
  return lock;
}
RecordLock of_open_file(RecordLock lock) {
  lock.open_file = true;
  return lock;
}

class OpenFileLocksTest : public testing::Test {
 protected:
  template <typename T>
  T run(job::Task<T> task) {
    return cluster::call(world_, process_, std::move(task));
  }
  Errc set(OpenFileLocks& locks, const wire::LockSpec& spec) { return run(locks.set(spec, false, {})).code(); }
  Errc flock(OpenFileLocks& locks, int operation) { return set(locks, *locks.flock_spec(operation)); }
  Errc fcntl(OpenFileLocks& locks, const RecordLock& lock) { return set(locks, *locks.record_lock_spec(lock, 0)); }

  cluster::World world_{{}};
  cluster::ClientProcess& process_ = world_.start_client();
  OpenFileLocks one_{process_.client(), kRootHandle};
  OpenFileLocks two_{process_.client(), kRootHandle};
};

TEST_F(OpenFileLocksTest, FlockLocksTheWholeFileForTheOpenFile) {
  const auto shared = one_.flock_spec(LOCK_SH | LOCK_NB);
  ASSERT_OK(shared);
  EXPECT_EQ(shared->handle, kRootHandle);
  EXPECT_EQ(shared->kind, LockKind::kFlock);
  EXPECT_EQ(shared->mode, LockMode::kShared);
  EXPECT_EQ(shared->first, 0U);
  EXPECT_EQ(shared->last, kToEnd);
  EXPECT_EQ(one_.flock_spec(LOCK_EX)->mode, LockMode::kExclusive);
  EXPECT_EQ(one_.flock_spec(LOCK_UN)->mode, LockMode::kNone);
  EXPECT_EQ(one_.flock_spec(LOCK_EX)->owner, shared->owner);
  EXPECT_NE(two_.flock_spec(LOCK_SH)->owner, shared->owner);
  EXPECT_ERRC(one_.flock_spec(LOCK_SH | LOCK_EX), Errc::kInvalidArgument);
}

TEST_F(OpenFileLocksTest, ARecordLockBelongsToTheProcessOrToTheOpenFile) {
  const auto process = one_.record_lock_spec(record_lock(F_RDLCK, 0, 10), 0);
  ASSERT_OK(process);
  EXPECT_EQ(process->kind, LockKind::kProcess);
  EXPECT_EQ(process->owner, 5U);
  EXPECT_EQ(process->mode, LockMode::kShared);
  const auto open_file = one_.record_lock_spec(of_open_file(record_lock(F_WRLCK, 0, 10)), 0);
  ASSERT_OK(open_file);
  EXPECT_EQ(open_file->kind, LockKind::kOpenFile);
  EXPECT_EQ(open_file->owner, one_.flock_spec(LOCK_SH)->owner);
  EXPECT_EQ(open_file->mode, LockMode::kExclusive);
  EXPECT_ERRC(one_.record_lock_spec(record_lock(77, 0, 10), 0), Errc::kInvalidArgument);
}

TEST_F(OpenFileLocksTest, ARangeBeginsAtItsBase) {
  const auto range = [&](std::int64_t base, std::int64_t start, std::int64_t size) {
    const auto spec = one_.record_lock_spec(record_lock(F_RDLCK, start, size), base);
    EXPECT_OK(spec);
    return spec ? LockRange{spec->first, spec->last} : LockRange{};
  };
  EXPECT_EQ(range(0, 3, 4), (LockRange{3, 6}));
  EXPECT_EQ(range(100, 3, 4), (LockRange{103, 106}));
  EXPECT_EQ(range(100, -3, 4), (LockRange{97, 100}));
  EXPECT_EQ(range(100, 3, 0), (LockRange{103, kToEnd}));
  EXPECT_EQ(range(100, 0, -4), (LockRange{96, 99})) << "a negative size is the range before the start";
  EXPECT_EQ(range(0, INT64_MAX, 1), (LockRange{kToEnd, kToEnd}));
}

TEST_F(OpenFileLocksTest, ARangeThatLeavesTheFileIsRefused) {
  const auto code = [&](std::int64_t base, std::int64_t start, std::int64_t size) {
    return one_.record_lock_spec(record_lock(F_RDLCK, start, size), base).code();
  };
  EXPECT_EQ(code(0, -1, 4), Errc::kInvalidArgument);
  EXPECT_EQ(code(3, 0, -4), Errc::kInvalidArgument);
  EXPECT_EQ(code(0, INT64_MAX, 2), Errc::kOutOfRange);
  EXPECT_EQ(code(1, INT64_MAX, 0), Errc::kOutOfRange);
}

TEST_F(OpenFileLocksTest, TwoOpenFilesOfOneProcessAreTwoOwnersOfFlock) {
  EXPECT_EQ(flock(one_, LOCK_EX), Errc::kOk);
  EXPECT_EQ(flock(two_, LOCK_EX), Errc::kTryAgain);
  EXPECT_EQ(flock(one_, LOCK_UN), Errc::kOk);
  EXPECT_EQ(flock(two_, LOCK_EX), Errc::kOk);
}

TEST_F(OpenFileLocksTest, TheLastCloseReleasesEveryLockThatWasTakenThroughTheFile) {
  RecordLock of_another_process = record_lock(F_WRLCK, 10, 10);
  of_another_process.process = 6;
  ASSERT_EQ(flock(one_, LOCK_EX), Errc::kOk);
  ASSERT_EQ(fcntl(one_, record_lock(F_WRLCK, 0, 10)), Errc::kOk);
  ASSERT_EQ(fcntl(one_, of_another_process), Errc::kOk);
  ASSERT_EQ(fcntl(one_, of_open_file(record_lock(F_WRLCK, 20, 10))), Errc::kOk);
  ASSERT_EQ(fcntl(two_, of_open_file(record_lock(F_WRLCK, 30, 10))), Errc::kOk);
  EXPECT_OK(run(one_.release_all()));
  EXPECT_EQ(flock(two_, LOCK_EX), Errc::kOk);
  EXPECT_EQ(fcntl(two_, of_open_file(record_lock(F_WRLCK, 0, 30))), Errc::kOk);
  EXPECT_EQ(fcntl(one_, of_open_file(record_lock(F_WRLCK, 30, 10))), Errc::kTryAgain) << "the other open file's lock";
}

TEST_F(OpenFileLocksTest, ATestFindsTheLockThatConflicts) {
  ASSERT_EQ(fcntl(one_, record_lock(F_WRLCK, 3, 4)), Errc::kOk);
  const RecordLock wanted = of_open_file(record_lock(F_RDLCK, 0, 0));
  const auto found = run(two_.test(*two_.record_lock_spec(wanted, 0)));
  ASSERT_OK(found);
  struct ::flock answer = posix::as_flock(wanted.range, *found);
  EXPECT_EQ(answer.l_type, F_WRLCK);
  EXPECT_EQ(answer.l_start, 3);
  EXPECT_EQ(answer.l_len, 4);
  EXPECT_EQ(answer.l_pid, ::getpid());
  const RecordLock beside = of_open_file(record_lock(F_RDLCK, 7, 0));
  const auto none = run(two_.test(*two_.record_lock_spec(beside, 0)));
  ASSERT_OK(none);
  EXPECT_EQ(posix::as_flock(beside.range, *none).l_type, F_UNLCK);
}

TEST_F(OpenFileLocksTest, ALockOfAnOpenFileHasNoProcess) {
  ASSERT_EQ(fcntl(one_, of_open_file(record_lock(F_RDLCK, 0, 0))), Errc::kOk);
  const RecordLock wanted = record_lock(F_WRLCK, 0, 10);
  const auto found = run(two_.test(*two_.record_lock_spec(wanted, 0)));
  ASSERT_OK(found);
  const struct ::flock answer = posix::as_flock(wanted.range, *found);
  EXPECT_EQ(answer.l_type, F_RDLCK);
  EXPECT_EQ(answer.l_pid, -1);
  EXPECT_EQ(answer.l_len, 0) << "to the end";
}

}  // namespace
}  // namespace spate::posix_test
