// SPDX-License-Identifier: Apache-2.0
#include "fuse/control.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

#include "base/check.h"
#include "base/expect.h"

namespace spate::fuse {
namespace {

/// A device number that no device here has, and that no other process of this test uses.
std::string device() { return "test-" + std::to_string(::getpid()); }

MountedDevice mounted() { return {device(), ::geteuid()}; }

TEST(ControlTest, OnlyListeningSupervisorsAreFound) {
  EXPECT_ERRC(connect_to(mounted()), Errc::kNotFound);
  const auto listener = listen_for(device());
  ASSERT_OK(listener);
  EXPECT_OK(connect_to(mounted()));
  remove_listener(device());
}

/// Another process that listens until it reads a byte, then removes its name and ends.
class EarlierSupervisor {
 public:
  EarlierSupervisor() {
    SPATE_CHECK(::pipe(told_.data()) == 0 && ::pipe(ready_.data()) == 0);
    const std::string number = device();
    process_ = ::fork();
    if (process_ == 0) {
      const auto listener = listen_for(number);
      char byte = listener ? 'y' : 'n';
      if (::write(ready_[1], &byte, 1) == 1 && ::read(told_[0], &byte, 1) == 1) remove_listener(number);
      ::_exit(0);
    }
    char byte = 0;
    listens_ = ::read(ready_[0], &byte, 1) == 1 && byte == 'y';
  }
  bool listens() const { return listens_; }
  void end() {
    SPATE_CHECK(::write(told_[1], "e", 1) == 1);
    ::waitpid(process_, nullptr, 0);
  }

 private:
  std::array<int, 2> told_{};
  std::array<int, 2> ready_{};
  pid_t process_ = -1;
  bool listens_ = false;
};

TEST(ControlTest, ASupervisorListensThoughAnEarlierOneWithItsNumberHasNotEnded) {
  EarlierSupervisor before;
  ASSERT_TRUE(before.listens()) << "the earlier supervisor cannot listen";
  const auto listener = listen_for(device());
  EXPECT_OK(listener);
  before.end();  // it removes only its own name, not that of its successor
  EXPECT_OK(connect_to(mounted()));
  remove_listener(device());
  EXPECT_ERRC(connect_to(mounted()), Errc::kNotFound);
}

}  // namespace
}  // namespace spate::fuse
