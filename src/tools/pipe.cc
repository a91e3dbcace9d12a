// SPDX-License-Identifier: Apache-2.0
// `spate cat`, `spate put`, `spate get`: whole files through standard input and output.
#include <unistd.h>

#include "tools/copy.h"

namespace spate::tools {
namespace {

struct PipeOptions {
  std::vector<std::string> paths;
};

job::Task<Result<void>> cat_one(client::Client& client, std::string path) {
  SPATE_CO_TRY(auto file, co_await client.open(client::path_from_root(path), wire::kOpenRead));
  Progress progress;
  auto moved = co_await pump_out(*file, STDOUT_FILENO, false, progress);
  auto closed = co_await file->close();
  if (!moved) co_return std::move(moved).error();
  if (!closed) co_return std::move(closed).error();
  co_return Result<void>();
}

job::Task<Result<void>> put_one(client::Client& client, std::string path) {
  client::NewObject object;
  object.attributes.mode = 0644;
  const std::uint8_t flags = wire::kOpenWrite | wire::kOpenTruncate;
  SPATE_CO_TRY(auto file, co_await client.create(client::path_from_root(path), flags, object));
  Progress progress;
  auto moved = co_await pump_in(*file, STDIN_FILENO, progress);
  auto closed = co_await file->close();
  if (!moved) co_return std::move(moved).error();
  if (!closed) co_return std::move(closed).error();
  co_return Result<void>();
}

int run_each(Context& context, const PipeOptions& options, job::Task<Result<void>> (*run)(client::Client&, std::string)) {
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  int code = kExitOk;
  for (const std::string& name : options.paths) {
    if (!is_remote(name)) return context.usage(name + ": paths in the file system begin with spate:");
    auto done = (*process)->run([&](client::Client& client) { return run(client, remote_path(name)); });
    if (!done) code = context.fail(done.error(), name);
  }
  return code;
}

Command make(std::string name, std::string summary, job::Task<Result<void>> (*run)(client::Client&, std::string)) {
  auto options = std::make_shared<PipeOptions>();
  Command command;
  command.name = std::move(name);
  command.group = "Copy";
  command.summary = std::move(summary);
  command.positionals = {{"PATH", "spate:/...", &options->paths, true}};
  command.run = [options, run](Context& context) { return run_each(context, *options, run); };
  return command;
}

}  // namespace

Command make_cat() { return make("cat", "print files", cat_one); }
Command make_get() { return make("get", "write a file to standard output (for pipes)", cat_one); }
Command make_put() { return make("put", "store standard input as a file", put_one); }

}  // namespace spate::tools
