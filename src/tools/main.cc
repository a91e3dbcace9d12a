// SPDX-License-Identifier: Apache-2.0
// main() of the spate command.
#include <csignal>

#include "base/open_files.h"
#include "tools/command.h"

int main(int argc, char** argv) {
  spate::fill_standard_descriptors();
  std::signal(SIGPIPE, SIG_IGN);  // a write to a closed pipe fails, and is reported
  return spate::tools::run_command_line(argc, argv);
}
