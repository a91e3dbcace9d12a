// SPDX-License-Identifier: Apache-2.0
// A thread gives memory back to the kernel. Before the C library does that for the first time, it opens a file below
// /proc while it holds the lock of the thread's heap. The library that takes the call must not need memory then.
//   preload_heap FILE
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr int kSmall = 2000;                // chunks of each small size, so that no free one is left in a list
constexpr int kLarge = 64;                  // chunks that are freed together
constexpr std::size_t kLargeSize = 100000;  // below the size from which malloc() uses mmap(2)

void grow_and_shrink() {
  std::vector<void*> small;
  small.reserve(kSmall * 16);
  for (std::size_t size = 16; size < 272; size += 16) {
    for (int i = 0; i < kSmall; ++i) small.push_back(std::malloc(size));
  }
  std::vector<void*> large;
  for (int i = 0; i < kLarge; ++i) large.push_back(std::malloc(kLargeSize));
  while (!large.empty()) {
    std::free(large.back());
    large.pop_back();
  }
  for (void* const chunk : small) std::free(chunk);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || ::open(argv[1], O_RDWR | O_CREAT, 0600) < 0) return 2;
  std::thread(grow_and_shrink).join();
  return 0;
}
