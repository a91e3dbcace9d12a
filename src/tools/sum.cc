// SPDX-License-Identifier: Apache-2.0
// `spate sum`: makes checksums of files and trees, inside and outside of Spate, and checks a list of them.

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "job/event.h"
#include "job/gate.h"
#include "job/semaphore.h"
#include "tools/commands.h"
#include "tools/name_space.h"
#include "tools/sum_list.h"
#include "tools/sum_source.h"

namespace spate::tools {
namespace {

/// Files read at once, so that the network and the processor both have work.
constexpr std::size_t kSumsAtOnce = 8;

struct SumOptions {
  std::vector<std::string> paths;
  std::string kind = "sha256";
  std::string check;
  bool summarize = false;
};

/// A checksum to be made.
struct Digesting {
  std::string name;  // relative to the source's root
  DigestKind kind = DigestKind::kSha256;
  Result<std::string> hex = Errc::kCancelled;
  bool done = false;
};

struct Tally {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
};

/// Everything below a directory, sorted by name as bytes, which is the same order inside and outside.
job::Task<Result<std::vector<SumItem>>> walk(SumSource& source, std::string root) {
  std::vector<SumItem> found;
  std::vector<std::string> directories{std::move(root)};
  while (!directories.empty()) {
    std::string directory = std::move(directories.back());
    directories.pop_back();
    SPATE_CO_TRY(auto items, co_await source.list(std::move(directory)));
    for (SumItem& item : items) {
      if (item.kind == SumItem::Kind::kDirectory) directories.push_back(item.name);
      found.push_back(std::move(item));
    }
  }
  std::sort(found.begin(), found.end(), [](const SumItem& a, const SumItem& b) { return a.name < b.name; });
  co_return found;
}

job::Task<void> make_one(SumSource& source, Digesting& job, job::Semaphore::Units units, job::Event& progress,
                         Tally& tally) {
  const job::Semaphore::Units held = std::move(units);
  job.hex = co_await source.digest(job.name, job.kind, tally.bytes);
  job.done = true;
  ++tally.files;
  progress.set();
}

/// Makes all checksums, several at once, and calls `tell` for each in order.
job::Task<void> make_all(job::Executor& executor, SumSource& source, std::vector<Digesting>& jobs, Tally& tally,
                         const std::function<void(const Digesting&)>& tell) {
  job::Gate gate(executor);
  job::Semaphore slots(executor, kSumsAtOnce);
  job::Event progress(executor);
  std::size_t told = 0;
  for (Digesting& job : jobs) {
    auto units = co_await slots.acquire(1);
    if (units) job::spawn(gate, make_one(source, job, *std::move(units), progress, tally));
    while (told < jobs.size() && jobs[told].done) tell(jobs[told++]);
  }
  while (told < jobs.size()) {
    progress.reset();
    while (told < jobs.size() && jobs[told].done) tell(jobs[told++]);
    if (told < jobs.size()) std::ignore = co_await progress.wait();
  }
  co_await gate.close();
}

using UseSource = std::function<job::Task<Result<void>>(job::Executor&, SumSource&)>;

/// Runs `use` on the files below `root`. Local files need no file system of Spate.
Result<void> with_source(Context& context, const std::string& root, const UseSource& use) {
  if (!is_remote(root)) {
    SystemClock clock;
    job::Executor executor(clock);
    const auto source = local_sum_source(root);
    return executor.run(use(executor, *source));
  }
  SPATE_TRY(assembly::ClientProcess* const process, context.file_system());
  const auto source = remote_sum_source(process->client(), remote_path(root));
  return process->run([&](client::Client&) { return use(process->executor(), *source); });
}

std::string last_name(const std::string& path) { return split_path(is_remote(path) ? remote_path(path) : path).second; }

/// The parameters of the lines for one argument.
struct Params {
  std::string path;
  std::string prefix;  // put before each name of a tree
  DigestKind kind = DigestKind::kSha256;
  bool summarize = false;
};

/// One checksum of everything: each object's kind, name and contents (or link target), in order.
std::string digest_of_all(DigestKind kind, const std::vector<SumItem>& items, const std::vector<Digesting>& jobs) {
  Digest digest(kind);
  std::size_t next_file = 0;
  for (const SumItem& item : items) {
    std::string line(1, "fdlo"[static_cast<std::size_t>(item.kind)]);
    line += item.name;
    line += '\0';
    line += item.kind == SumItem::Kind::kFile ? jobs[next_file++].hex.value() : item.target;
    line += '\0';
    digest.update(as_bytes(line));
  }
  return digest.hex();
}

class Output {
 public:
  Output(Context& context, DigestKind kind) : context_(context), kind_(kind) {}
  void sum(const std::string& name, const std::string& hex) {
    if (!context_.json) {
      // A pipe or file gets the form that sha256sum reads. On a terminal, names are escaped, since they may have
      // control sequences.
      print(context_.stdout_is_terminal() ? fmt::format("{}  {}\n", hex, printable(name))
                                          : format_sum({kind_, hex, name}));
      return;
    }
    list_.push_back({{"path", printable(name)}, {"algorithm", spate::name(kind_)}, {"sum", hex}});
  }
  void failed(const Error& error) { code_ = context_.fail(error); }
  int end() {
    if (context_.json) context_.print_json(list_);
    return code_;
  }

 private:
  Context& context_;
  DigestKind kind_;
  nlohmann::json list_ = nlohmann::json::array();
  int code_ = kExitOk;
};

job::Task<Result<void>> sum_tree(job::Executor& executor, SumSource& source, const Params& params, Output& output) {
  SPATE_CO_TRY(const std::vector<SumItem> items, co_await walk(source, std::string()));
  std::vector<Digesting> jobs;
  for (const SumItem& item : items) {
    if (item.kind == SumItem::Kind::kFile) jobs.push_back({item.name, params.kind});
  }
  Tally tally;
  bool whole = true;
  const std::function<void(const Digesting&)> tell = [&](const Digesting& job) {
    whole = whole && job.hex.has_value();
    if (!job.hex) {
      output.failed(job.hex.error());
    } else if (!params.summarize) {
      output.sum(params.prefix + job.name, *job.hex);
    }
  };
  co_await make_all(executor, source, jobs, tally, tell);
  if (params.summarize && whole) output.sum(params.path, digest_of_all(params.kind, items, jobs));
  co_return Result<void>();
}

job::Task<Result<void>> sum_one(job::Executor& executor, SumSource& source, const Params& params, Output& output) {
  SPATE_CO_TRY(const SumItem item, co_await source.look(std::string()));
  if (item.kind == SumItem::Kind::kDirectory) {
    auto done = co_await sum_tree(executor, source, params, output);
    co_return done;
  }
  if (item.kind != SumItem::Kind::kFile)
    co_return Error::told(Errc::kInvalidArgument, params.path + ": neither a file nor a directory");
  std::uint64_t bytes = 0;
  SPATE_CO_TRY(auto hex, co_await source.digest(std::string(), params.kind, bytes));
  output.sum(params.summarize ? params.path : last_name(params.path), hex);
  co_return Result<void>();
}

int run_make(Context& context, const SumOptions& options, DigestKind kind) {
  Output output(context, kind);
  for (const std::string& path : options.paths) {
    Params params{path, {}, kind, options.summarize};
    if (options.paths.size() > 1) params.prefix = last_name(path) + "/";
    auto done = with_source(context, path, [&](job::Executor& executor, SumSource& source) {
      return sum_one(executor, source, params, output);
    });
    if (!done) output.failed(done.error());
  }
  return output.end();
}

Result<std::string> read_list(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::ifstream in(path, std::ios::binary);
  if (!in) return errno_error(errno, path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

struct CheckTally {
  std::size_t wrong = 0;
  std::size_t unreadable = 0;
};

/// Prints the result for one line; returns it as JSON.
nlohmann::json tell_check(Context& context, const SumLine& line, const Digesting& job, CheckTally& tally) {
  const bool equal = job.hex && *job.hex == line.hex;
  if (!job.hex) {
    ++tally.unreadable;
  } else if (!equal) {
    ++tally.wrong;
  }
  nlohmann::json row = {{"path", printable(line.name)}, {"ok", equal}};
  if (!job.hex) {
    row["error"] = job.hex.error().message();
    row["code"] = spate::name(job.hex.error().code());
  }
  if (context.json || (equal && context.quiet)) return row;
  const std::string verdict = equal     ? "OK"
                              : job.hex ? "FAILED"
                                        : "FAILED: " + printable_lines(job.hex.error().message());
  print(printable(line.name) + ": " + verdict + "\n");
  return row;
}

job::Task<Result<void>> check_all(job::Executor& executor, SumSource& source, std::vector<Digesting>& jobs,
                                  const std::function<void(const Digesting&)>& tell) {
  Tally tally;
  co_await make_all(executor, source, jobs, tally, tell);
  co_return Result<void>();
}

int check_sums(Context& context, const SumOptions& options) {
  if (options.paths.size() > 1)
    return context.usage("sum --check takes at most one folder: where the names of the list begin");
  const std::string root = options.paths.empty() ? "." : options.paths.front();
  auto text = read_list(options.check);
  if (!text) return context.fail(text.error());
  const SumList list = parse_sums(*text);
  if (list.lines.empty())
    return context.fail(options.check + ": no line is a checksum as `spate sum`, sha256sum or xxh128sum prints it");
  std::vector<Digesting> jobs;
  for (const SumLine& line : list.lines) jobs.push_back({line.name, line.kind});
  nlohmann::json rows = nlohmann::json::array();
  CheckTally tally;
  const std::function<void(const Digesting&)> tell = [&](const Digesting& job) {
    rows.push_back(tell_check(context, list.lines[static_cast<std::size_t>(&job - jobs.data())], job, tally));
  };
  auto read = with_source(context, root, [&](job::Executor& executor, SumSource& source) {
    return check_all(executor, source, jobs, tell);
  });
  if (!read) return context.fail(read.error());
  if (context.json) context.print_json(rows);
  if (list.malformed > 0) context.fail(fmt::format("{}: {} lines are no checksums", options.check, list.malformed));
  if (tally.wrong > 0) context.fail(fmt::format("{} of {} checksums do not match", tally.wrong, jobs.size()));
  if (tally.unreadable > 0)
    context.fail(fmt::format("{} of {} files could not be read", tally.unreadable, jobs.size()));
  return tally.wrong + tally.unreadable + list.malformed == 0 ? kExitOk : kExitFailed;
}

int run_sum(Context& context, const SumOptions& options) {
  if (!options.check.empty()) return check_sums(context, options);
  if (options.paths.empty()) return context.usage("sum takes files or directories, or --check LIST");
  auto kind = parse_digest_kind(options.kind);
  return kind ? run_make(context, options, *kind) : context.usage(kind.error().message());
}

}  // namespace

Command make_sum() {
  auto options = std::make_shared<SumOptions>();
  Command command;
  command.name = "sum";
  command.group = "Look";
  command.summary = "print checksums of files and trees, in the file system and outside";
  command.details =
      "Names of a directory's files are printed relative to it (with several arguments: after its own name), so that\n"
      "`spate sum spate:/tree` and `spate sum tree` can be compared by diff. The format is that of sha256sum and "
      "xxh128sum.";
  command.positionals = {
      {"PATH", "spate:/... or local; with --check the folder where the list's names begin", &options->paths}};
  command.options = {{"-a,--algorithm",
                      "sha256 (default), or xxh3, which is much faster but does not detect forgery",
                      &options->kind,
                      false,
                      {"sha256", "xxh3"}},
                     {"-c,--check", "LIST: check the checksums in this file (- = standard input)", &options->check},
                     {"-s,--summarize", "one checksum for each PATH: over kinds, names, link targets and contents",
                      &options->summarize}};
  command.run = [options](Context& context) { return run_sum(context, *options); };
  return command;
}

}  // namespace spate::tools
