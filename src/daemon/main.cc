// SPDX-License-Identifier: Apache-2.0
// main() of spated, the server daemon.
#include <getopt.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "assembly/server_process.h"
#include "log/output.h"

namespace {

// Written before the handlers are installed; request_exit() is an atomic store and a write to an eventfd.
std::atomic<spate::assembly::ServerProcess*> running{nullptr};

void on_signal(int) {
  if (auto* process = running.load()) process->request_exit();
}

int usage() {
  std::fprintf(stderr, "usage: spated --config FILE --server ID\n"
                       "Serves one server of a spate.toml, in the foreground. `spate up` starts all of them.\n");
  return 2;
}

int fail(const spate::Error& error) {
  std::fprintf(stderr, "spated: %s\n", error.message().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  spate::assembly::ServerSettings settings;
  const option options[] = {{"config", required_argument, nullptr, 'c'},
                            {"server", required_argument, nullptr, 's'},
                            {"help", no_argument, nullptr, 'h'},
                            {nullptr, 0, nullptr, 0}};
  for (int c = 0; (c = ::getopt_long(argc, argv, "c:s:h", options, nullptr)) != -1;) {
    if (c == 'c') {
      settings.config_file = optarg;
    } else if (c == 's') {
      settings.server = spate::ServerId(static_cast<std::uint32_t>(std::strtoul(optarg, nullptr, 10)));
    } else {
      return usage();
    }
  }
  if (settings.config_file.empty() || !settings.server) return usage();
  std::signal(SIGPIPE, SIG_IGN);
  auto process = spate::assembly::ServerProcess::open(settings);
  if (!process) return fail(process.error());
  running = process->get();
  std::signal(SIGTERM, on_signal);
  std::signal(SIGINT, on_signal);
  const auto ended = (*process)->run();
  running = nullptr;
  return ended ? 0 : fail(ended.error());
}
