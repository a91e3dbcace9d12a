// SPDX-License-Identifier: Apache-2.0
// ha_client SPATE.TOML DIRECTORY SECONDS
// Makes DIRECTORY, and then empty files in it, one after the other, for SECONDS. Prints one line of JSON: the number of
// files, the seconds that they took, and the time of the longest call in seconds.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "assembly/client_process.h"

namespace spate {
namespace {

struct Made {
  std::size_t files = 0;
  Duration time{0};
  Duration longest{0};
};

job::Task<Result<Made>> make_files(client::Client& client, std::string folder, Duration span) {
  job::Executor& executor = client.cluster().executor();
  client::NewObject object;
  object.attributes.mode = 0755;
  SPATE_CO_TRY(std::ignore, co_await client.mkdir(client::path_from_root(folder), object.attributes));
  Made made;
  const MonoTime begin = executor.now();
  while (executor.now() - begin < span) {
    const std::string name = folder + "/" + std::to_string(made.files);
    const MonoTime before = executor.now();
    SPATE_CO_TRY(auto file,
                 co_await client.create(client::path_from_root(name), wire::kOpenWrite | wire::kOpenExclusive, object));
    made.longest = std::max(made.longest, executor.now() - before);
    const MonoTime created = executor.now();
    SPATE_CO_TRY(std::ignore, co_await file->close());
    made.longest = std::max(made.longest, executor.now() - created);
    ++made.files;
  }
  made.time = executor.now() - begin;
  co_return made;
}

Result<Made> run_client(char** argv) {
  assembly::ClientSettings settings;
  settings.config_file = argv[1];
  settings.program = "ha_client";
  settings.credential = assembly::own_credential();
  SPATE_TRY(const auto process, assembly::ClientProcess::open(settings));
  const Duration span(static_cast<std::int64_t>(std::atof(argv[3]) * 1e9));
  return process->run([&](client::Client& client) { return make_files(client, argv[2], span); });
}

}  // namespace
}  // namespace spate

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: ha_client SPATE.TOML DIRECTORY SECONDS\n");
    return 2;
  }
  const auto made = spate::run_client(argv);
  if (!made) {
    std::fprintf(stderr, "ha_client: %s\n", made.error().message().c_str());
    return 1;
  }
  std::printf("{\"files\": %zu, \"seconds\": %.3f, \"longest\": %.3f}\n", made->files,
              static_cast<double>(made->time.count()) / 1e9, static_cast<double>(made->longest.count()) / 1e9);
  return 0;
}
