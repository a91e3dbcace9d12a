// SPDX-License-Identifier: Apache-2.0
#include "measure/cpu.h"

#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <string>
#include <system_error>
#include <tuple>

namespace spate::measure {
namespace {

Result<void> pin_thread(pid_t thread, const cpu_set_t& set) {
  if (::sched_setaffinity(thread, sizeof set, &set) != 0) return errno_error(errno, "sched_setaffinity");
  return {};
}

}  // namespace

Result<double> cpu_seconds(pid_t pid) {
  clockid_t clock{};
  const int error = ::clock_getcpuclockid(pid, &clock);
  timespec t{};
  if (error == ESRCH) return Error(Errc::kNotFound, "process " + std::to_string(pid));
  if (error != 0) return errno_error(error, "processor time of " + std::to_string(pid));
  if (::clock_gettime(clock, &t) != 0) return errno_error(errno, "processor time of " + std::to_string(pid));
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

Result<void> pin(pid_t pid, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu >= 0) {
    CPU_SET(static_cast<std::size_t>(cpu), &set);
  } else {
    for (std::size_t i = 0; i < CPU_SETSIZE; ++i) CPU_SET(i, &set);
  }
  if (pid == 0) return pin_thread(0, set);
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", error)) {
    SPATE_TRY(std::ignore, pin_thread(static_cast<pid_t>(std::stol(thread.path().filename().string())), set));
  }
  if (error) return errno_error(error.value(), "threads of " + std::to_string(pid));
  return {};
}

int cpu_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace spate::measure
