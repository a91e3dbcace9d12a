// SPDX-License-Identifier: Apache-2.0
// `spate job`: the options of packaging/slurm/spate-job, which does the work.
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "tools/commands.h"

namespace spate::tools {
namespace {

struct JobOptions {
  std::string action;
  std::vector<std::string> paths;
  // Passed on as they are: name and value.
  std::vector<std::pair<const char*, std::string>> texts{{"--id", ""},     {"--hosts", ""}, {"--launcher", ""},
                                                         {"--dir", ""},    {"--mount", ""}, {"--mount-options", ""},
                                                         {"--address", ""}};
  std::optional<std::uint64_t> owner;
  std::optional<std::uint64_t> movers;
  bool keep = false;

  std::string* text(std::string_view name) {
    for (auto& [known, value] : texts) {
      if (name == known) return &value;
    }
    return nullptr;
  }
};

int run_job(Context& context, const JobOptions& options) {
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  const std::string program = (own / "../lib/spate/job/spate-job").lexically_normal().string();
  std::vector<std::string> words{program, options.action};
  for (const auto& [name, value] : options.texts) {
    if (!value.empty()) words.push_back(fmt::format("{}={}", name, value));
  }
  if (options.owner) words.push_back(fmt::format("--owner={}", *options.owner));
  if (options.movers) words.push_back(fmt::format("--movers={}", *options.movers));
  if (options.keep) words.emplace_back("--keep");
  if (context.json) words.emplace_back("--json");
  if (context.quiet) words.emplace_back("--quiet");
  words.emplace_back("--");
  words.insert(words.end(), options.paths.begin(), options.paths.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  const int why = errno;
  if (why == ENOENT && std::filesystem::exists(program, error)) return context.fail(program + " needs python3");
  return context.fail(errno_error(why, "start " + program));
}

}  // namespace

Command make_job() {
  auto options = std::make_shared<JobOptions>();
  Command command;
  command.name = "job";
  command.group = "Start and stop";
  command.summary = "make a file system for a batch job on the local disks of its nodes";
  command.details =
      "job up                            make it on all nodes of the job, and mount it there with --mount\n"
      "job stage-in SOURCE spate:/TO     copy a tree in, by all nodes at once, with checksums compared\n"
      "job stage-out spate:/FROM TARGET  copy a tree out\n"
      "job status                        each server: up or down\n"
      "job down                          end it; nothing of it is left on the nodes\n"
      "job clean                         on one node: remove what killed jobs have left, for an epilog\n"
      "The file system ends with the process that ran `spate job up`, which is usually the batch script. A copy\n"
      "that was interrupted continues when the command is run again. docs/slurm.md has whole job scripts.";
  command.positionals = {{"ACTION",
                          "up, down, status, stage-in, stage-out or clean",
                          &options->action,
                          true,
                          {"up", "down", "status", "stage-in", "stage-out", "clean"}},
                         {"PATH", "SOURCE and TARGET of a copy", &options->paths}};
  command.options = {
      {"--id", "the job (SLURM_JOB_ID)", options->text("--id")},
      {"--hosts", "up: names of the nodes, separated by commas (those of the Slurm job)", options->text("--hosts")},
      {"--launcher",
       "up: the command that starts programs on the nodes (srun). With {host} it runs once for each node ('ssh "
       "{host}'), else once for all of them, with {hosts} and {count}. local: all nodes are this machine",
       options->text("--launcher")},
      {"--dir", "up, clean: a folder of a local disk, the same on each node (SLURM_TMPDIR, TMPDIR, /tmp)",
       options->text("--dir")},
      {"--mount", "up: where each node mounts it; {host} in it is the node's name", options->text("--mount")},
      {"--mount-options", "up: -o of `spate mount`", options->text("--mount-options")},
      {"--address", "up: how nodes reach a node, as in {host}-ib ({host})", options->text("--address")},
      {"--owner", "up: the file system ends with this process (the one that runs this command)", &options->owner},
      {"--keep", "up: only `spate job down` ends the file system", &options->keep},
      {"--movers", "stage-in, stage-out: copies at once on each node (4)", &options->movers}};
  command.run = [options](Context& context) { return run_job(context, *options); };
  return command;
}

}  // namespace spate::tools
