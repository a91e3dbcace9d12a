// SPDX-License-Identifier: Apache-2.0
// Forks while another thread swaps descriptors of Spate: each child has whole ones, old or new.
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

/// In a child: every descriptor that is swapped is there. With `reads`, which needs a connection of its own: it means
/// one of the two files.
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
