// SPDX-License-Identifier: Apache-2.0
// A fork while another thread changes what a descriptor means.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "base/expect.h"
#include "preload/descriptors.h"
#include "preload/front_link.h"

namespace spate::preload {
namespace {

constexpr int kNumber = 100;
constexpr std::size_t kGuarded = 4096;  // bytes of marks, among them the mark of kNumber

std::array<char, 64> stat_of_forker{};  // path of the forking thread's state
std::byte* guarded = nullptr;
std::atomic<bool> touched{false};

bool forker_sleeps() {
  std::array<char, 512> text{};
  const int file = ::open(stat_of_forker.data(), O_RDONLY | O_CLOEXEC);
  const ssize_t size = ::read(file, text.data(), text.size() - 1);
  ::close(file);
  return size > 0 && std::strstr(text.data(), ") S ") != nullptr;
}

/// The changing thread is in the middle of its change. It continues when the forking thread waits, either for the
/// change or, if that thread does not respect the change, for its child.
void on_touch(int /*signal*/, siginfo_t* /*info*/, void* /*context*/) {
  touched = true;
  while (!forker_sleeps()) {
    const timespec pause{0, 1'000'000};
    ::nanosleep(&pause, nullptr);
  }
  ::mprotect(guarded, kGuarded, PROT_READ | PROT_WRITE);
}

class ForkTest : public testing::Test {
 protected:
  void SetUp() override {
    void* const memory =
        ::mmap(nullptr, sizeof(FrontState), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    guarded = static_cast<std::byte*>(memory);
    front_.state = new (memory) FrontState;
    set_front(front_);
    const std::string path = "/proc/self/task/" + std::to_string(::gettid()) + "/stat";
    std::copy_n(path.c_str(), path.size() + 1, stat_of_forker.begin());
    struct sigaction action{};
    action.sa_sigaction = on_touch;
    action.sa_flags = SA_SIGINFO;
    ASSERT_EQ(::sigaction(SIGSEGV, &action, &before_), 0);
  }
  void TearDown() override { ::sigaction(SIGSEGV, &before_, nullptr); }

  DescriptionRef open_one() {
    int descriptor = -1;
    auto state = MappedState::create({Handle(7), FileType::kRegular, O_RDWR, "/spate", "/spate/f"}, descriptor);
    EXPECT_OK(state);
    ::close(descriptor);
    return std::make_shared<Description>(mount_, *std::move(state), nullptr);
  }

  Front front_{};
  Mount mount_{MountPoint{}, 0};
  struct sigaction before_{};
};

TEST_F(ForkTest, TheChildSeesADescriptorThatWasChangedDuringTheForkWholeAndNew) {
  const DescriptionRef earlier = open_one();
  const DescriptionRef later = open_one();
  replace(kNumber, earlier);
  ASSERT_EQ(::mprotect(guarded, kGuarded, PROT_NONE), 0);
  std::thread changer([&] { replace(kNumber, later); });
  while (!touched) {  // never asleep before the fork
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::mprotect(guarded, kGuarded, PROT_READ | PROT_WRITE);
    forget_descriptors();
    ::_exit(known_description_of(kNumber) == later ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  changer.join();
  EXPECT_EQ(status, 0) << "the child was made in the middle of the change";
  replace(kNumber, nullptr);
}

}  // namespace
}  // namespace spate::preload
