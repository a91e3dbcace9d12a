// SPDX-License-Identifier: Apache-2.0
#include "base/local_socket.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "base/expect.h"

namespace spate {
namespace {

std::string unused_name(const char* what) { return std::string(what) + "-" + std::to_string(::getpid()); }

/// Runs `work` in a child that is another user, with a number that no account has. 0: it returned true.
int as_user(uid_t user, const std::function<bool()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool dropped = ::setresgid(user, user, user) == 0 && ::setresuid(user, user, user) == 0;
    ::_exit(dropped && work() ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  return status;
}

constexpr uid_t kStranger = 65501;
/// Each run has a folder of its own, since others may run this test at the same time.
const uid_t kVictim = 64000U + static_cast<uid_t>(::getpid()) % 1400U;

TEST(LocalSocket, ProcessesOfOneUserMeet) {
  const std::string name = unused_name("test");
  auto listening = listen_for_own_user(name, 4);
  ASSERT_OK(listening);
  const auto connected = connect_to_user(::geteuid(), name);
  ASSERT_OK(connected);
  EXPECT_EQ(*user_behind(connected->get()), ::geteuid());
  EXPECT_ERRC(listen_for_own_user(name, 4), Errc::kBusy);
  listening->reset();
  EXPECT_ERRC(connect_to_user(::geteuid(), name), Errc::kNotFound);
  EXPECT_OK(listen_for_own_user(name, 4)) << "a socket that nobody listens on is in the way";
  remove_socket(name);
  EXPECT_FALSE(std::filesystem::exists(*own_socket_folder() + "/" + name));
}

TEST(LocalSocket, AnotherUserCannotConnect) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const std::string name = unused_name("test");
  const auto listening = listen_for_own_user(name, 4);
  ASSERT_OK(listening);
  EXPECT_EQ(as_user(kStranger, [&] { return connect_to_user(0, name).code() == Errc::kNotPermitted; }), 0);
  remove_socket(name);
}

TEST(LocalSocket, AFolderThatAnotherUserHasPreparedIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const std::string folder = "/tmp/spate-" + std::to_string(kVictim);
  std::filesystem::remove_all(folder);
  ASSERT_EQ(as_user(kStranger, [&] { return ::mkdir(folder.c_str(), 0700) == 0; }), 0);
  EXPECT_EQ(as_user(kVictim, [] { return own_socket_folder().code() == Errc::kNotPermitted; }), 0);
  EXPECT_EQ(as_user(kVictim, [] { return listen_for_own_user("x", 1).code() == Errc::kNotPermitted; }), 0);
  EXPECT_THAT(socket_folders_of(kVictim), testing::IsEmpty());
  std::filesystem::remove_all(folder);
  // A link to a folder of the victim's own is refused, too.
  ASSERT_EQ(as_user(kVictim, [&] { return ::mkdir((folder + ".own").c_str(), 0700) == 0; }), 0);
  ASSERT_EQ(as_user(kStranger, [&] { return ::symlink((folder + ".own").c_str(), folder.c_str()) == 0; }), 0);
  EXPECT_EQ(as_user(kVictim, [] { return own_socket_folder().code() == Errc::kNotPermitted; }), 0);
  std::filesystem::remove_all(folder);
  std::filesystem::remove_all(folder + ".own");
}

TEST(LocalSocket, AFolderThatIsOpenToOthersIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const std::string folder = "/tmp/spate-" + std::to_string(kVictim);
  std::filesystem::remove_all(folder);
  ASSERT_EQ(as_user(kVictim, [&] { return ::mkdir(folder.c_str(), 0700) == 0 && ::chmod(folder.c_str(), 0755) == 0; }),
            0);
  EXPECT_EQ(as_user(kVictim, [] { return own_socket_folder().code() == Errc::kNotPermitted; }), 0);
  std::filesystem::remove_all(folder);
}

/// When root asks a user's process, it must not believe another user who listens in that user's folder.
TEST(LocalSocket, RefusesAListenerOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const std::string folder = "/tmp/spate-" + std::to_string(kVictim);
  std::filesystem::remove_all(folder);
  ASSERT_EQ(as_user(kVictim, [] { return own_socket_folder().has_value(); }), 0);
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    // A stranger listens in a folder that the victim has opened to all, by choice or by accident.
    ::chmod(folder.c_str(), 0777);
    const bool dropped = ::setresuid(kStranger, kStranger, kStranger) == 0;
    const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
    sockaddr_storage room{};
    room.ss_family = AF_UNIX;
    const std::string path = folder + "/name";
    path.copy(reinterpret_cast<char*>(&room) + sizeof room.ss_family, path.size());
    const auto size = static_cast<socklen_t>(sizeof room.ss_family + path.size() + 1);
    const bool listens =
        dropped && ::bind(socket, reinterpret_cast<sockaddr*>(&room), size) == 0 && ::listen(socket, 4) == 0;
    const char told = listens ? 'y' : 'n';
    if (::write(ready[1], &told, 1) == 1) ::pause();
    ::_exit(0);
  }
  char told = 'n';
  ASSERT_EQ(::read(ready[0], &told, 1), 1);
  ASSERT_EQ(told, 'y');
  ::chmod(folder.c_str(), 0700);
  EXPECT_ERRC(connect_to_user(kVictim, "name"), Errc::kNotPermitted);
  ::kill(stranger, SIGKILL);
  ::waitpid(stranger, nullptr, 0);
  std::filesystem::remove_all(folder);
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace spate
