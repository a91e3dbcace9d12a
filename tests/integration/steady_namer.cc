// SPDX-License-Identifier: Apache-2.0
// steady_namer SPATE.TOML DIRECTORY
// Makes DIRECTORY. Until standard input ends, it makes one empty file after another there: creates "new-N", which must
// not exist, and renames it to "N". For each file it prints N and the time of the slowest call in ms; at the end
// "closed". It fails if a change is made twice, or is acknowledged and then lost.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "assembly/client_process.h"

namespace spate {
namespace {

/// Writes the line by one write(2), so that nothing is left in a buffer when the process is killed.
void tell(const std::string& line) {
  if (::write(STDOUT_FILENO, (line + "\n").c_str(), line.size() + 1) < 0) std::exit(1);
}

bool input_has_ended() {
  char byte = 0;
  return ::read(STDIN_FILENO, &byte, 1) == 0;  // does not wait
}

job::Task<Result<void>> make_names(client::Client& client, std::string folder) {
  job::Executor& executor = client.cluster().executor();
  client::NewObject object;
  object.attributes.mode = 0755;
  SPATE_CO_TRY(std::ignore, co_await client.mkdir(client::path_from_root(folder), object.attributes));
  for (std::size_t number = 0; !input_has_ended(); ++number) {
    const std::string made = folder + "/new-" + std::to_string(number);
    const std::string name = folder + "/" + std::to_string(number);
    const MonoTime begin = executor.now();
    SPATE_CO_TRY(auto file,
                 co_await client.create(client::path_from_root(made), wire::kOpenWrite | wire::kOpenExclusive, object));
    SPATE_CO_TRY(std::ignore, co_await file->close());
    const MonoTime middle = executor.now();
    SPATE_CO_TRY(std::ignore, co_await client.rename(client::path_from_root(made), client::path_from_root(name)));
    const Duration longest = std::max(middle - begin, executor.now() - middle);
    tell(std::to_string(number) + " " + std::to_string(longest.count() / 1'000'000));
  }
  tell("closed");
  co_return Result<void>();
}

Result<void> run_namer(char** argv) {
  assembly::ClientSettings settings;
  settings.config_file = argv[1];
  settings.program = "steady_namer";
  settings.credential = assembly::own_credential();
  SPATE_TRY(const auto process, assembly::ClientProcess::open(settings));
  return process->run([&](client::Client& client) { return make_names(client, argv[2]); });
}

}  // namespace
}  // namespace spate

int main(int argc, char** argv) {
  if (argc != 3 || ::fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK) != 0) {
    std::fprintf(stderr, "usage: steady_namer SPATE.TOML DIRECTORY\n");
    return 2;
  }
  const auto done = spate::run_namer(argv);
  if (!done) std::fprintf(stderr, "steady_namer: %s\n", done.error().message().c_str());
  return done ? 0 : 1;
}
