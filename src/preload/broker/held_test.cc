// SPDX-License-Identifier: Apache-2.0
#include "preload/broker/held.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "base/expect.h"
#include "base/local_packet.h"

namespace spate::preload {
namespace {

constexpr std::size_t kSize = 8192;
constexpr Handle kHandle{7};

UniqueFd memory_of_a_file() { return UniqueFd(static_cast<int>(make_memory("spate:", kSize))); }

UniqueFd path_only(int descriptor) {
  return UniqueFd(::open(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), O_PATH | O_CLOEXEC));
}

/// The descriptor that another process makes by `make` and sends.
UniqueFd sent_by(const std::function<int()>& make) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return {};
  const UniqueFd here(ends[0]);
  UniqueFd there(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    const int descriptor = make();
    const bool sent = descriptor >= 0 && send_local_packet(there.get(), as_bytes("x"), std::span(&descriptor, 1)) == 0;
    ::_exit(sent ? 0 : 1);
  }
  there.reset();
  std::array<std::byte, 8> room{};
  LocalPacket packet;
  const int failed = receive_local_packet(here.get(), room, packet, true);
  ::waitpid(child, nullptr, 0);
  return failed == 0 ? std::move(packet.descriptors[0]) : UniqueFd();
}

/// In a child with mounts of its own: makes a file in a new tmpfs, named like a memfd, with that inode number.
int file_with_number(ino_t number) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return -1;
  if (::mount("none", "/mnt", "tmpfs", 0, nullptr) != 0 || ::chroot("/mnt") != 0 || ::chdir("/") != 0) return -1;
  for (;;) {
    ::unlink("memfd:spate:");
    const int made = ::open("memfd:spate:", O_RDWR | O_CREAT | O_EXCL, 0600);
    struct stat st{};
    if (made < 0 || ::fstat(made, &st) != 0 || st.st_ino > number) return -1;
    if (st.st_ino == number) return ::ftruncate(made, kSize) == 0 ? made : -1;
    ::close(made);
  }
}

class HeldFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = HeldFiles::make();
    ASSERT_OK(made);
    files = *std::move(made);
  }
  Errc refusal(int descriptor) {
    const auto watched = files->watch(descriptor, kHandle);
    return watched ? Errc::kOk : watched.code();
  }
  std::unique_ptr<HeldFiles> files;
};

TEST_F(HeldFilesTest, AllDescriptorsOfTheMemoryBelongToOneFile) {
  const UniqueFd memory = memory_of_a_file();
  ASSERT_TRUE(memory);
  const auto first = files->watch(memory.get(), kHandle);
  ASSERT_OK(first);
  const auto second = files->watch(path_only(memory.get()).get(), kHandle);
  ASSERT_OK(second);
  EXPECT_EQ(*first, *second);
  EXPECT_ERRC(files->watch(memory.get(), Handle{8}), Errc::kInvalidArgument) << "another file's handle";
}

TEST_F(HeldFilesTest, AFileWithTheSameInodeNumberIsAnotherFile) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to mount";
  const UniqueFd memory = memory_of_a_file();
  ASSERT_EQ(refusal(memory.get()), Errc::kOk);
  const MemoryIdentity mine = identity_of(memory.get());
  const UniqueFd twin = sent_by([&] { return file_with_number(mine.inode); });
  if (!twin) GTEST_SKIP() << "no tmpfs can be mounted, or its numbers do not come so far";
  struct stat st{};
  ASSERT_EQ(::fstat(twin.get(), &st), 0);
  ASSERT_EQ(st.st_ino, mine.inode);
  EXPECT_NE(identity_of(twin.get()), mine);
  EXPECT_EQ(refusal(twin.get()), Errc::kInvalidArgument);
}

TEST_F(HeldFilesTest, AFileIsKnownByItsDeviceAndItsNumber) {
  const UniqueFd memory = memory_of_a_file();
  const UniqueFd ordinary(::open("/proc/self/exe", O_PATH | O_CLOEXEC));
  for (const UniqueFd* const one : {&memory, &ordinary}) {
    struct stat st{};
    ASSERT_EQ(::fstat(one->get(), &st), 0);
    EXPECT_EQ(identity_of(one->get()), (MemoryIdentity{st.st_dev, st.st_ino}));
  }
}

/// To open a file can have effects: the open may wait for a file system, or for a process that has a lease on the file.
TEST_F(HeldFilesTest, FilesOnAnotherDeviceAreNotOpened) {
  std::string name = testing::TempDir() + "not-opened.XXXXXX";
  const UniqueFd file(::mkstemp(name.data()));
  ASSERT_TRUE(file);
  const UniqueFd sent = path_only(file.get());
  const UniqueFd opens(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  ASSERT_GE(::inotify_add_watch(opens.get(), name.c_str(), IN_OPEN), 0);
  EXPECT_EQ(refusal(sent.get()), Errc::kInvalidArgument);
  std::array<char, 4096> events{};
  EXPECT_LT(::read(opens.get(), events.data(), events.size()), 0) << "it was opened";
  ::unlink(name.c_str());
}

TEST_F(HeldFilesTest, OtherFilesAreRefused) {
  const UniqueFd unsealed(::memfd_create("spate:", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::fchmod(unsealed.get(), 0600), 0);  // only its seals are wrong
  EXPECT_EQ(refusal(unsealed.get()), Errc::kInvalidArgument);
  const UniqueFd ordinary(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(refusal(ordinary.get()), Errc::kInvalidArgument);
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  const UniqueFd out(pipe[0]);
  const UniqueFd in(pipe[1]);
  EXPECT_EQ(refusal(out.get()), Errc::kInvalidArgument);
  EXPECT_EQ(refusal(-1), Errc::kInvalidArgument);
}

TEST_F(HeldFilesTest, AnotherUsersMemoryIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be several users";
  const UniqueFd theirs = sent_by([] {
    constexpr uid_t kStranger = 65504;
    if (::setresgid(kStranger, kStranger, kStranger) != 0 || ::setresuid(kStranger, kStranger, kStranger) != 0)
      return -1;
    return static_cast<int>(make_memory("spate:", kSize));
  });
  ASSERT_TRUE(theirs);
  EXPECT_EQ(refusal(theirs.get()), Errc::kInvalidArgument);
}

TEST_F(HeldFilesTest, TheMemoryCannotBeTruncatedOrSealed) {
  const UniqueFd memory = memory_of_a_file();
  EXPECT_NE(::ftruncate(memory.get(), 0), 0);
  EXPECT_NE(::ftruncate(memory.get(), 2 * kSize), 0);
  EXPECT_NE(::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

}  // namespace
}  // namespace spate::preload
