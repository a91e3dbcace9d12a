// SPDX-License-Identifier: Apache-2.0
// Forks while other threads replace descriptors of Spate. Each child must have whole descriptors, old or new ones.
//   preload_forks FILE-WITH-a FILE-WITH-b FORKS
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr int kFirst = 100;
constexpr int kSwapped = 8;

/// Run in a child: each replaced descriptor must be open. With `reads`, for which the child makes a connection of its
/// own, each must also refer to one of the two files.
int look(bool reads) {
  for (int number = kFirst; number < kFirst + kSwapped; ++number) {
    if (::fcntl(number, F_GETFL) < 0) return 9;
    char letter = '?';
    if (reads && (::pread(number, &letter, 1, 0) != 1 || (letter != 'a' && letter != 'b'))) return 10;
    if (reads) ::close(number);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int a = ::open(argv[1], O_RDONLY);
  const int b = ::open(argv[2], O_RDONLY);
  if (a < 0 || b < 0) return 3;
  for (int number = kFirst; number < kFirst + kSwapped; ++number) ::dup2(a, number);
  std::atomic<bool> stop{false};
  std::vector<std::thread> swappers;
  for (int half = 0; half < 2; ++half) {
    swappers.emplace_back([&, half] {
      for (unsigned round = 0; !stop; ++round) {
        const int number = kFirst + half * kSwapped / 2 + static_cast<int>(round) % (kSwapped / 2);
        ::dup2((round & 4U) != 0 ? a : b, number);
      }
    });
  }
  int failed = 0;
  for (int i = 0; i < std::atoi(argv[3]) && failed == 0; ++i) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(look(i % 256 == 0));
    int status = 0;
    if (::waitpid(child, &status, 0) != child || status != 0) failed = status;
  }
  stop = true;
  for (std::thread& swapper : swappers) swapper.join();
  if (failed != 0) std::printf("a child ended with status %#x\n", static_cast<unsigned>(failed));
  return failed == 0 ? 0 : 1;
}
