// SPDX-License-Identifier: Apache-2.0
// One client of the experiment, as a process. It opens the file and prints "ready". For each line "write" or "read"
// that it gets, it moves its part and prints the seconds.
#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>

#include "assembly/client_process.h"
#include "pvfs/workload.h"

namespace spate::bench {
namespace {

Result<void> work(const char* config, const char* path, Part part) {
  assembly::ClientSettings settings;
  settings.config_file = config;
  settings.program = "pvfs_client";
  settings.credential = assembly::own_credential();
  SPATE_TRY(auto process, assembly::ClientProcess::open(settings));
  SPATE_TRY(auto file, process->run([&](client::Client& c) { return open_shared(c, path); }));
  fmt::print("ready\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    part.write = line == "write";
    const auto begin = std::chrono::steady_clock::now();
    SPATE_TRY(std::ignore, process->run([&](client::Client&) { return move_part(*file, part); }));
    fmt::print("{:.6f}\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    std::fflush(stdout);
  }
  SPATE_TRY(std::ignore, process->run([&](client::Client&) { return file->close(); }));
  return {};
}

}  // namespace
}  // namespace spate::bench

int main(int argc, char** argv) {
  if (argc != 6) {
    fmt::print(stderr, "usage: pvfs_client SPATE.TOML PATH OFFSET BYTES REQUEST-BYTES\n");
    return 2;
  }
  spate::bench::Part part;
  part.offset = std::strtoull(argv[3], nullptr, 10);
  part.bytes = std::strtoull(argv[4], nullptr, 10);
  part.request_bytes = std::strtoull(argv[5], nullptr, 10);
  if (part.bytes == 0 || part.request_bytes == 0) return 2;
  const auto done = spate::bench::work(argv[1], argv[2], part);
  if (!done) fmt::print(stderr, "pvfs_client: {}\n", done.error().message());
  return done ? 0 : 1;
}
