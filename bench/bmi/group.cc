// SPDX-License-Identifier: Apache-2.0
#include "bmi/group.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>

#include "base/check.h"
#include "measure/cpu.h"

namespace spate::bench {

namespace {
constexpr int kMost = 64;
}

/// Lies in memory that all processes share. A barrier spins with sched_yield, since no time is measured there.
struct Group::Shared {
  int size = 0;
  std::atomic<int> arrived = 0;
  std::atomic<int> turn = 0;
  std::array<double, kMost> results{};
  std::array<std::array<char, 4096>, kMost> lines{};
};

void Group::barrier() {
  ++turn_;
  if (shared_.arrived.fetch_add(1) + 1 == shared_.size) {
    shared_.arrived.store(0);
    shared_.turn.store(turn_);
    return;
  }
  while (shared_.turn.load() < turn_) ::sched_yield();
}

void Group::tell(int rank, const std::string& text) {
  auto& line = shared_.lines[static_cast<std::size_t>(rank)];
  SPATE_CHECK(text.size() < line.size());
  std::memcpy(line.data(), text.c_str(), text.size() + 1);
}

std::string Group::hear(int rank) const { return shared_.lines[static_cast<std::size_t>(rank)].data(); }

std::vector<double> Group::run(int size, const std::function<double(Group&, int rank)>& body) {
  SPATE_CHECK(size >= 1 && size <= kMost);
  void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  SPATE_CHECK(memory != MAP_FAILED);
  Shared& shared = *new (memory) Shared;
  shared.size = size;
  const int processors = measure::cpu_count();
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = ::fork();
    SPATE_CHECK(child >= 0);
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      (void)measure::pin(0, rank % processors).has_value();
      Group group(shared);
      shared.results[static_cast<std::size_t>(rank)] = body(group, rank);
      ::_exit(0);
    }
    children.push_back(child);
  }
  bool good = true;
  for (std::size_t left = children.size(); left > 0; --left) {
    int status = 0;
    (void)::wait(&status);
    if (status == 0 || !good) continue;
    good = false;
    for (const pid_t child : children) ::kill(child, SIGKILL);
  }
  SPATE_CHECK(good);
  std::vector<double> results(shared.results.begin(), shared.results.begin() + size);
  ::munmap(memory, sizeof(Shared));
  return results;
}

}  // namespace spate::bench
