// SPDX-License-Identifier: Apache-2.0
// patient_cutter SPATE.TOML PREFIX COUNT
// Makes COUNT files PREFIX0, PREFIX1, ... and prints "ready". After a line on standard input it truncates all of them
// at once, each with a deadline of a day, as on a hard mount. It prints "cut" after the last truncation.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "assembly/client_process.h"

namespace spate {
namespace {

constexpr std::uint64_t kSize = 5;

job::Task<Result<void>> make_file(client::Client& client, std::string path) {
  client::NewObject object;
  object.attributes.mode = 0644;
  SPATE_CO_TRY(auto file, co_await client.create(client::path_from_root(path), wire::kOpenWrite, object));
  SPATE_CO_TRY(std::ignore, co_await file->close());
  co_return Result<void>();
}

job::Task<void> cut(client::Client& client, std::string path, Result<void>& outcome) {
  outcome = co_await client.truncate(client::path_from_root(path), kSize);
}

std::string path_of(const std::string& prefix, std::size_t i) { return prefix + std::to_string(i); }

job::Task<Result<void>> make_all(client::Client& client, std::string prefix, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    std::string path = path_of(prefix, i);
    SPATE_CO_TRY(std::ignore, co_await make_file(client, std::move(path)));
  }
  co_return Result<void>();
}

job::Task<Result<void>> cut_all(client::Client& client, job::Executor& executor, std::string prefix,
                                std::size_t count) {
  std::vector<Result<void>> outcomes(count);
  job::Gate gate(executor);
  for (std::size_t i = 0; i < count; ++i) {
    std::string path = path_of(prefix, i);
    job::spawn(gate, cut(client, std::move(path), outcomes[i]));
  }
  co_await gate.close();
  for (Result<void>& outcome : outcomes) {
    if (!outcome) co_return std::move(outcome).error();
  }
  co_return Result<void>();
}

void say(const char* line) {
  std::puts(line);
  std::fflush(stdout);
}

Result<void> run(char** argv) {
  assembly::ClientSettings settings;
  settings.config_file = argv[1];
  settings.program = "patient_cutter";
  settings.credential = assembly::own_credential();
  settings.deadline = std::chrono::hours(24);
  SPATE_TRY(const auto process, assembly::ClientProcess::open(settings));
  const std::string prefix = argv[2];
  const std::size_t count = std::strtoull(argv[3], nullptr, 10);
  SPATE_TRY(std::ignore, process->run([&](client::Client& client) { return make_all(client, prefix, count); }));
  say("ready");
  // Outside of run(): a coroutine that waited here would keep the heartbeats from being sent.
  if (std::getchar() == EOF) return Error(Errc::kCancelled, "standard input was closed");
  SPATE_TRY(std::ignore, process->run([&](client::Client& client) {
    return cut_all(client, client.cluster().executor(), prefix, count);
  }));
  say("cut");
  return {};
}

}  // namespace
}  // namespace spate

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: patient_cutter SPATE.TOML PREFIX COUNT\n");
    return 2;
  }
  const auto done = spate::run(argv);
  if (!done) std::fprintf(stderr, "patient_cutter: %s\n", done.error().message().c_str());
  return done ? 0 : 1;
}
