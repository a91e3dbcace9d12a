// SPDX-License-Identifier: Apache-2.0
// `spate cp`: the command line, the destination of each source, and the progress line.
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>

#include "tools/commands.h"
#include "tools/copy.h"
#include "tools/name_space.h"
#include "tools/text.h"

namespace spate::tools {
namespace {

struct CpOptions {
  std::vector<std::string> paths;
  CopyRun run;
};

/// The sources and destinations, by direction.
struct Plan {
  CopyList in;
  CopyList out;
  CopyList within;
};

/// Whether every other file would meet the same error.
bool ends_all(Errc code) {
  constexpr Errc kThese[] = {
      Errc::kTimeout,         Errc::kNoSpace,       Errc::kQuotaExceeded,   Errc::kReadOnly,
      Errc::kNoMemory,        Errc::kUnreachable,   Errc::kConnectionLost,  Errc::kProtocol,
      Errc::kVersionMismatch, Errc::kBadAddress,    Errc::kNoSuchModule,    Errc::kUnauthenticated,
      Errc::kSessionUnknown,  Errc::kSessionFenced, Errc::kWrongFileSystem, Errc::kFormatTooNew};
  return std::find(std::begin(kThese), std::end(kThese), code) != std::end(kThese);
}

/// The destination, examined once.
struct Target {
  bool remote = false;
  std::string path;
  bool is_directory = false;
};

Result<Target> look_at(assembly::ClientProcess& process, const std::string& name) {
  Target target{is_remote(name), is_remote(name) ? remote_path(name) : name, false};
  if (!target.remote) {
    struct stat st{};
    target.is_directory = ::stat(name.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
    return target;
  }
  auto there = process.run([&](client::Client& c) { return c.lookup(client::path_from_root(target.path)); });
  if (!there && there.code() != Errc::kNotFound) return std::move(there).error().within(name);
  target.is_directory = there && there->attributes.type == FileType::kDirectory;
  return target;
}

/// The destination of `source`: in a directory it keeps its name. A source that ends with ".." has none.
std::string place_of(const std::string& source, const Target& target) {
  if (!target.is_directory) return target.path;
  const std::string name = split_path(source).second;
  return join_path(target.path, name == ".." ? "." : name);
}

Plan make_plan(const CpOptions& options, const Target& target) {
  Plan plan;
  for (std::size_t i = 0; i + 1 < options.paths.size(); ++i) {
    const std::string& name = options.paths[i];
    const std::string source = is_remote(name) ? remote_path(name) : name;
    CopyList& list = !is_remote(name) ? plan.in : target.remote ? plan.within : plan.out;
    list.push_back({source, place_of(source, target), target.is_directory});
  }
  return plan;
}

double seconds_since(job::Executor& executor, MonoTime begin) {
  return std::chrono::duration<double>(executor.now() - begin).count();
}

job::Task<void> show_progress(job::Executor& executor, const Progress& progress, job::StopToken stop) {
  const MonoTime begin = executor.now();
  for (;;) {
    auto slept = co_await executor.sleep(std::chrono::milliseconds(200), stop);
    if (!slept) break;
    fmt::print(stderr, "\r\033[K{}", progress_line(progress, seconds_since(executor, begin)));
  }
  fmt::print(stderr, "\r\033[K{}\n", progress_sum(progress, seconds_since(executor, begin)));
}

/// Counts files and bytes for the progress display. The total is shown only when the count is complete.
job::Task<void> count_all(client::Client& client, const Plan& plan, CopyRun& run, job::StopToken stop) {
  const bool follow = !run.recursive;
  for (const CopyParams& params : plan.in)
    co_await count_local(client.cluster().executor(), params.from, follow, run.progress, stop);
  for (const CopyList* const list : {&plan.out, &plan.within}) {
    for (const CopyParams& params : *list) co_await count_remote(client, params.from, follow, run.progress, stop);
  }
  run.progress.counted = true;
}

/// Copies everything, with a progress line on a terminal.
job::Task<void> copy_all(client::Client& client, const Plan& plan, CopyRun& run, bool shown) {
  job::Executor& executor = client.cluster().executor();
  job::Gate drawing(executor);
  job::StopSource done;
  if (shown) {
    job::spawn(drawing, count_all(client, plan, run, done));
    job::spawn(drawing, show_progress(executor, run.progress, done));
  }
  if (!plan.in.empty()) co_await copy_in(client, plan.in, run);
  if (!plan.out.empty()) co_await copy_out(client, plan.out, run);
  if (!plan.within.empty()) co_await copy_within(client, plan.within, run);
  done.request_stop();
  co_await drawing.close();
}

int run_cp(Context& context, const CpOptions& options) {
  if (options.paths.size() < 2) return context.usage("cp takes a source and a destination");
  const std::string& last = options.paths.back();
  for (std::size_t i = 0; i + 1 < options.paths.size(); ++i) {
    if (!is_remote(options.paths[i]) && !is_remote(last))
      return context.usage("cp copies in, out or within: source or destination begins with spate:");
  }
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  auto target = look_at(**process, last);
  if (!target) return context.fail(target.error());
  if (options.paths.size() > 2 && !target->is_directory)
    return context.fail(last + " is no directory, which several sources need (" +
                        (target->remote ? "spate mkdir" : "mkdir") + " makes one)");
  const Plan plan = make_plan(options, *target);
  const bool shown = !context.quiet && !options.run.dry && context.stderr_is_terminal();
  CopyRun run = options.run;
  run.errors.clear_line(shown);
  (*process)->run([&](client::Client& client) { return copy_all(client, plan, run, shown); });
  return run.errors.any() ? kExitFailed : kExitOk;
}

/// Whether the times are equal. Some file systems keep only whole seconds.
bool same_time(WallTime a, WallTime b) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const bool whole = a.ns % kSecond == 0 || b.ns % kSecond == 0;
  return whole ? a.ns / kSecond == b.ns / kSecond : a == b;
}

}  // namespace

bool CopyRun::leaves_alone(bool taken, const std::optional<CopyState>& there, const CopyState& source) const {
  if (keep && (taken || there)) return true;
  return update && there && there->size == source.size && same_time(there->mtime, source.mtime);
}

bool CopyRun::begin(const std::string& from, const std::string& to) const {
  if (verbose || dry) print(fmt::format("{} -> {}\n", printable(from), printable(to)));
  return !dry;
}

void CopyErrors::tell(const Error& error) {
  const bool last = ends_all(error.code());
  any_ = true;
  if (last && ended_) return;
  ended_ = ended_ || last;
  fmt::print(stderr, "{}spate: {}{}\n", clear_line_ ? "\r\033[K" : "", printable_lines(error.message()),
             last ? " (nothing more is copied)" : "");
}

Command make_cp() {
  auto options = std::make_shared<CpOptions>();
  Command command;
  command.name = "cp";
  command.group = "Copy";
  command.summary = "copy files and trees in, out and within, with modes, times and links";
  command.positionals = {
      {"PATH", "sources, then the destination; one side, or both, begins with spate:", &options->paths, true}};
  command.details =
      "Without -r a source that is a symbolic link is followed; with -r links are copied as links.\n"
      "-u continues a copy that was interrupted. It skips files that exist with the same size and time, and copies\n"
      "all others, even if the destination is newer, as rsync does. -n skips every file that exists. If the first\n"
      "run has made the destination directory, write SOURCE/. instead of SOURCE, which would be copied to a\n"
      "directory below it.";
  command.options = {{"-r,-R,-a,--recursive,--archive", "directories with everything below, and links as links",
                      &options->run.recursive},
                     {"-u,--update", "skip files that exist with the same size and time", &options->run.update},
                     {"-n,--no-clobber", "skip files that exist", &options->run.keep},
                     {"-v,--verbose", "print the name of each file that is copied", &options->run.verbose},
                     {"--dry-run", "print what would be copied, and copy nothing", &options->run.dry}};
  command.run = [options](Context& context) { return run_cp(context, *options); };
  return command;
}

}  // namespace spate::tools
