// SPDX-License-Identifier: Apache-2.0
// `spate top`: who loads the file system now.
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "tools/asker.h"
#include "tools/commands.h"
#include "tools/file_names.h"
#include "tools/load_table.h"
#include "tools/name_space.h"

namespace spate::tools {
namespace {

struct TopOptions {
  std::vector<std::string> servers;
  bool once = false;
  std::uint64_t interval_s = 2;
  std::optional<std::uint64_t> rounds;
  std::uint64_t most = 20;
  std::string group = "client";
  std::string order = "load";
};

bool is_one_of(const std::string& word, std::span<const std::string_view> all) {
  return std::find(all.begin(), all.end(), word) != all.end();
}

std::string usage_error(const TopOptions& options) {
  if (options.interval_s == 0 || options.interval_s > 3600) return "--interval takes seconds, 1 to 3600";
  if (options.rounds && *options.rounds == 0) return "--rounds takes a number of 1 or more";
  if (options.once && options.rounds) return "--once is --rounds 1";
  if (!is_one_of(options.group, kLoadGroups)) return "--group is client, job, user, host, program or file";
  if (!is_one_of(options.order, kLoadOrders)) return "--sort is load, bytes, requests or time";
  return {};
}

std::size_t terminal_columns(const Context& context) {
  winsize size{};
  if (!context.stdout_is_terminal() || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

/// Reports the servers that do not answer, each once until it fails for another reason.
class Failures {
 public:
  explicit Failures(Context& context) : context_(context) {}

  void note(ServerId server, const Error& error) {
    if (error.code() == Errc::kNotPrimary) return;  // a meta server that does not lead answers no client
    code_ = kExitFailed;
    auto [said, is_new] = said_.try_emplace(server, error.code());
    if (!is_new && said->second == error.code()) return;
    said->second = error.code();
    if (error.code() == Errc::kNotSupported) {
      context_.fail_of(
          server, Error::told(error.code(),
                              fmt::format("server {} has an older version, which does not count this", server.value)));
    } else {
      context_.fail_of(server, error);
    }
  }
  void answered(ServerId server) { said_.erase(server); }
  /// kExitOk as long as nothing has failed.
  int code() const { return code_; }

 private:
  Context& context_;
  std::map<ServerId, Errc> said_;
  int code_ = kExitOk;
};

template <typename Reply, typename Request>
Result<std::map<ServerId, Reply>> ask(Asker& asker, const std::vector<ServerId>& servers, Failures& failures) {
  SPATE_TRY(const auto replies, asker.ask<Reply>(Request(), servers));
  std::map<ServerId, Reply> good;
  for (const auto& [server, reply] : replies) {
    if (reply) {
      failures.answered(server);
      good.emplace(server, *reply);
    } else {
      failures.note(server, reply.error());
    }
  }
  return good;
}

void show(Context& context, const TopOptions& options, LoadView view, std::size_t servers) {
  view.rows = grouped(std::move(view.rows), options.group);
  sort_rows(view.rows, options.order);
  const auto most = static_cast<std::size_t>(options.most);
  if (context.json) {
    nlohmann::json told = to_json(view, most);
    told["servers"] = servers;
    return context.print_json(told);
  }
  std::string text = options.once || !context.stdout_is_terminal() ? "" : "\033[H\033[2J";
  text += fmt::format("{} that asked something of {} in {:.1f} s\n", counted(view.rows.size(), options.group),
                      counted(servers, "server"), view.seconds);
  print(text + load_table(view, most, terminal_columns(context)));
}

/// Shows one view after the other. `view(before, now)` computes it from two rounds of replies. Ends at once if every
/// server refuses the first one: there would be nothing to show.
template <typename Reply, typename Request, typename View>
int watch(Context& context, const TopOptions& options, Asker& asker, const std::vector<ServerId>& servers,
          std::uint64_t rounds, View view) {
  Failures failures(context);
  auto before = ask<Reply, Request>(asker, servers, failures);
  if (!before) return context.fail(before.error());
  if (before->empty() && failures.code() != kExitOk) return failures.code();
  int code = kExitOk;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    asker.wait(std::chrono::seconds(options.interval_s));
    auto now = ask<Reply, Request>(asker, servers, failures);
    if (!now) {
      code = context.fail(now.error());
      continue;
    }
    show(context, options, view(*before, *now), now->size());
    before = std::move(now);
  }
  return code == kExitOk ? failures.code() : code;
}

int run_top(Context& context, const TopOptions& options) {
  if (const std::string wrong = usage_error(options); !wrong.empty()) return context.usage(wrong);
  auto asker = Asker::open(context);
  if (!asker) return context.fail(asker.error());
  const auto servers = chosen_servers(asker->process().config(), options.servers);
  if (!servers) return context.usage(servers.error().message());
  const std::uint64_t rounds = options.once ? 1 : options.rounds.value_or(std::numeric_limits<std::uint64_t>::max());
  if (options.group == "file") {
    FileNames names(asker->process());
    return watch<wire::ListFileLoadsReply, wire::ListFileLoadsRequest>(
        context, options, *asker, *servers, rounds, [&](const FileLoadReplies& before, const FileLoadReplies& now) {
          LoadView view = file_loads_between(before, now);
          sort_rows(view.rows, options.order);
          names.name(view.rows, static_cast<std::size_t>(options.most));
          return view;
        });
  }
  return watch<wire::ListLoadsReply, wire::ListLoadsRequest>(
      context, options, *asker, *servers, rounds,
      [](const LoadReplies& before, const LoadReplies& now) { return loads_between(before, now, &user_name); });
}

std::vector<std::string> words(std::span<const std::string_view> all) { return {all.begin(), all.end()}; }

}  // namespace

Command make_top() {
  auto options = std::make_shared<TopOptions>();
  Command command;
  command.name = "top";
  command.group = "Look";
  command.summary = "show who uses the file system now: bytes, requests and latency of each client";
  command.details =
      "A client is a process that uses the file system, such as a program or a mount. A row shows what the client\n"
      "did in a second: the bytes that it read and wrote, its requests by kind (reads, writes, looks at names and\n"
      "attributes, changes of the name space), the failed requests, and the mean time from a request's arrival at a\n"
      "server to its answer. JOB is the client's SPATE_CLIENT_TAG, or client.tag of its spate.toml; without both it\n"
      "is the number of its Slurm, PBS, LSF or Flux job. Each server counts the 128 busiest clients and files\n"
      "separately. A file is shown by its name if that is among the first 20,000 of the tree, else by its number.\n"
      "Servers do not see what clients read by the bypass (docs/data-paths.md).";
  command.positionals = {{"SERVER", "numbers of servers (all)", &options->servers}};
  Argument group{"-g,--group", "print a row for each client, job, user, host, program or file (client)",
                 &options->group};
  group.choices = words(kLoadGroups);
  Argument order{"-s,--sort",
                 "order of the rows: by load (requests, plus one for each 64 KiB), bytes, requests, or time (load)",
                 &options->order};
  order.choices = words(kLoadOrders);
  command.options = {{"-1,--once", "print one table and end", &options->once},
                     {"-i,--interval", "SECONDS between two tables (2)", &options->interval_s},
                     {"-n,--rounds", "end after this number of tables", &options->rounds},
                     {"-k,--rows", "largest number of rows (20)", &options->most},
                     std::move(group),
                     std::move(order)};
  command.run = [options](Context& context) { return run_top(context, *options); };
  return command;
}

}  // namespace spate::tools
