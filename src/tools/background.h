// SPDX-License-Identifier: Apache-2.0
// Processes in the background and their pid files, FOLDER/run/NAME.pid.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace spate::tools {

/// The path of a program that lies beside this one.
std::string program_beside_this(const std::string& name);

/// Starts a program in a session of its own, which reads nothing and writes to the descriptor `output`; its pid.
Result<int> spawn_in_background(std::vector<std::string> arguments, std::vector<std::string> environment, int output);

struct PidFileState {
  int pid = 0;         // 0: not running
  bool stale = false;  // there was a pid file, but its process is gone, or the pid is another program's
};
PidFileState read_pid_file(const std::string& folder, const std::string& name);
/// kNotFound: there is no such process.
Result<void> write_pid_file(const std::string& folder, const std::string& name, int pid);
void remove_pid_file(const std::string& folder, const std::string& name);

/// Sends SIGTERM, waits up to `grace`, then sends SIGKILL. kTimeout: even that does not end it.
Result<void> end_process(int pid, const std::string& name, Duration grace);

}  // namespace spate::tools
