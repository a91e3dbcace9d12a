// SPDX-License-Identifier: Apache-2.0
// `spate cat`, `spate put`, `spate get`: whole files through standard input and output.
#include <poll.h>
#include <unistd.h>

#include "tools/commands.h"
#include "tools/copy.h"
#include "tools/destination.h"
#include "tools/path_arguments.h"

namespace spate::tools {
namespace {

struct PipeOptions {
  std::vector<std::string> paths;
};

job::Task<Result<void>> cat_one(client::Client& client, std::string path) {
  auto file = co_await client.open(client::path_from_root(path), wire::kOpenRead);
  if (!file) co_return std::move(file).error().within("spate:" + path);
  Progress progress;
  auto moved = co_await pump_out(**file, STDOUT_FILENO, false, progress);
  auto closed = co_await (*file)->close();
  if (!moved) co_return std::move(moved).error().within("spate:" + path);
  if (!closed) co_return std::move(closed).error().within("spate:" + path);
  co_return Result<void>();
}

job::Task<Result<void>> put_one(client::Client& client, std::string path) {
  client::NewObject object;
  object.attributes.mode = 0644;
  const std::uint8_t flags = wire::kOpenWrite | wire::kOpenTruncate;
  const Destination destination{client::path_from_root(path), "standard input", path};
  auto file = co_await client.create(destination.where, flags, object);
  if (!file) co_return cannot_make(std::move(file).error(), destination);
  Progress progress;
  auto moved = co_await pump_in(**file, STDIN_FILENO, false, progress);
  auto closed = co_await (*file)->close();
  if (!moved) co_return std::move(moved).error().within("spate:" + path);
  if (!closed) co_return std::move(closed).error().within("spate:" + path);
  co_return Result<void>();
}

/// Whether the reader of standard output has ended ("... | head"). That is no error.
bool reader_has_left(const Error& error) {
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  return error.code() == Errc::kConnectionLost && ::poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

int run_each(Context& context, const PipeOptions& options,
             job::Task<Result<void>> (*run)(client::Client&, std::string)) {
  for (const std::string& name : options.paths) {
    if (!is_remote(name))
      return context.usage(name +
                           ": paths in the file system begin with spate: (`spate cp` copies to and from local files)");
  }
  if (run == put_one && options.paths.size() > 1)
    return context.usage("put takes one path, as there is one standard input");
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  int code = kExitOk;
  std::vector<std::string> paths = options.paths;
  // A pattern names existing files, so put does not expand it.
  if (run != put_one && !take_remote_paths(context, **process, paths, code)) return code;
  for (const std::string& name : paths) {
    auto done = (*process)->run([&](client::Client& client) { return run(client, remote_path(name)); });
    if (!done && reader_has_left(done.error())) return kExitNoReader;
    if (!done) code = context.fail(done.error());
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
