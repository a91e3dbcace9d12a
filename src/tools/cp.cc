// SPDX-License-Identifier: Apache-2.0
// `spate cp`: the command line, and the line of progress.
#include <sys/stat.h>

#include <memory>

#include <fmt/core.h>

#include "tools/copy.h"
#include "tools/name_space.h"

namespace spate::tools {
namespace {

struct CpOptions {
  std::vector<std::string> paths;
  bool recursive = false;
};

job::Task<void> show_progress(job::Executor& executor, const Progress& progress, job::StopToken stop) {
  const MonoTime begin = executor.now();
  for (;;) {
    auto slept = co_await executor.sleep(std::chrono::milliseconds(200), stop);
    const double seconds = std::chrono::duration<double>(executor.now() - begin).count();
    const auto rate = static_cast<std::uint64_t>(static_cast<double>(progress.bytes) / std::max(seconds, 0.001));
    fmt::print(stderr, "\r\033[K{} files, {}, {}/s", progress.files, human_size(progress.bytes), human_size(rate));
    if (!slept) break;
  }
  fmt::print(stderr, "\n");
}

/// In or out, with a line of progress on a terminal.
job::Task<Result<void>> copy(client::Client& client, CopyWish wish, bool in, bool shown) {
  job::Executor& executor = client.cluster().executor();
  Progress progress;
  job::Gate drawing(executor);
  job::StopSource done;
  if (shown) job::spawn(drawing, show_progress(executor, progress, done));
  Result<void> copied;
  if (in) {
    copied = co_await copy_in(client, std::move(wish), progress);
  } else {
    copied = co_await copy_out(client, std::move(wish), progress);
  }
  done.request_stop();
  co_await drawing.close();
  co_return copied;
}

/// "spate:/dir" or "dir" as a destination of `source`: into it when it is a directory.
std::string into(assembly::ClientProcess& process, const std::string& source, const std::string& target) {
  const std::string name = split_path(is_remote(source) ? remote_path(source) : source).second;
  if (is_remote(target)) {
    const std::string path = remote_path(target);
    auto there = process.run([&](client::Client& c) { return c.stat(client::path_from_root(path)); });
    return there && there->attributes.type == FileType::kDirectory ? join_path(path, name) : path;
  }
  struct stat st {};
  return ::stat(target.c_str(), &st) == 0 && S_ISDIR(st.st_mode) ? join_path(target, name) : target;
}

int run_cp(Context& context, const CpOptions& options) {
  if (options.paths.size() < 2) return context.usage("cp takes a source and a destination");
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  const std::string& target = options.paths.back();
  int code = kExitOk;
  for (std::size_t i = 0; i + 1 < options.paths.size(); ++i) {
    const std::string& source = options.paths[i];
    const bool in = !is_remote(source);
    if (in && !is_remote(target)) return context.usage("cp copies in, out or within: source or destination begins with spate:");
    const std::string to = into(**process, source, target);
    const CopyWish wish{in ? source : remote_path(source), to, options.recursive};
    const bool progress = !context.quiet && context.stderr_is_terminal();
    const bool within = !in && is_remote(target);
    auto copied = (*process)->run([&](client::Client& client) {
      return within ? copy_within(client, wish) : copy(client, wish, in, progress);
    });
    if (!copied) code = context.fail(copied.error());
  }
  return code;
}

}  // namespace

Command make_cp() {
  auto options = std::make_shared<CpOptions>();
  Command command;
  command.name = "cp";
  command.group = "Copy";
  command.summary = "copy files and trees in, out and within, with modes, times and links";
  command.positionals = {{"PATH", "sources, then the destination; one side, or both, begins with spate:", &options->paths, true}};
  command.options = {{"-r,--recursive", "directories with everything below", &options->recursive}};
  command.run = [options](Context& context) { return run_cp(context, *options); };
  return command;
}

}  // namespace spate::tools
