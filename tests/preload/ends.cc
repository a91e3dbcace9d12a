// SPDX-License-Identifier: Apache-2.0
// ends PATH PROCESSES: processes end while other threads use a file of Spate. Each must end with its own exit code.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

constexpr int kStatus = 3;

[[noreturn]] void use(const char* path, int file) {
  std::array<char, 8> bytes{};
  struct stat st{};
  for (;;) {
    if (::pread(file, bytes.data(), bytes.size(), 0) < 0 || ::stat(path, &st) != 0) std::_Exit(1);
    ::usleep(700);  // leaves processor time for the thread that ends the process
  }
}

/// Ends between two calls of the other threads, or during one.
[[noreturn]] void end_at_some_time(const char* path, int number) {
  const int file = ::open(path, O_RDWR | O_CREAT, 0644);
  if (file < 0 || ::write(file, "some bytes", 10) != 10) std::_Exit(2);
  for (int i = 0; i < 2; ++i) std::thread(use, path, file).detach();
  ::usleep(static_cast<useconds_t>(number) * 97 % 3000);  // each process ends at another moment
  std::_Exit(kStatus);
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) return 2;
  const int processes = std::atoi(words[2]);
  for (int i = 0; i < processes; ++i) {
    const pid_t child = ::fork();
    if (child == 0) end_at_some_time(words[1], i);
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child) return 2;
    if (WIFEXITED(status) && WEXITSTATUS(status) == kStatus) continue;
    std::fprintf(stderr, "process %d ended with %#x\n", i, static_cast<unsigned>(status));
    return 1;
  }
  return 0;
}
