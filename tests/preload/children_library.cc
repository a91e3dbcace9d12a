// SPDX-License-Identifier: Apache-2.0
// A library whose constructor uses Spate while another thread makes its first call of Spate. children.cc loads
// it.
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

namespace {

struct stat found;

/// Whether the thread waits in the kernel.
bool sleeps(long thread) {
  const std::string path = "/proc/self/task/" + std::to_string(thread) + "/stat";
  std::FILE* const file = std::fopen(path.c_str(), "r");
  char state = '?';
  const bool known = file != nullptr && std::fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
  if (file != nullptr) std::fclose(file);
  return known && state == 'S';
}

__attribute__((constructor)) void start() {
  static std::atomic<long> other{0};
  static std::thread first([] {
    other = syscall(SYS_gettid);
    struct stat st{};
    stat("/spate", &st);
  });
  first.detach();
  while (other == 0 || !sleeps(other)) {  // the other thread waits for the linker, which runs this constructor
  }
  if (stat("/spate", &found) == 0) setenv("LOADED", "1", 1);
}

}  // namespace
