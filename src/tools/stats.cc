// SPDX-License-Identifier: Apache-2.0
// `spate stats`: prints the servers' counters and measurements.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "model/server_url.h"
#include "tools/asker.h"
#include "tools/commands.h"
#include "tools/stats_text.h"

namespace spate::tools {
namespace {

struct StatsOptions {
  std::vector<std::string> servers;
  std::optional<std::uint64_t> watch_s;
  std::optional<std::uint64_t> rounds;
  bool prometheus = false;
};

using Snapshots = std::map<ServerId, Result<metrics::Snapshot>>;

/// The values to show for each server: all, or the differences to the last round.
Snapshots since(const Snapshots& now, const Snapshots& before) {
  Snapshots difference;
  for (const auto& [server, snapshot] : now) {
    const auto old = before.find(server);
    const bool both = snapshot && old != before.end() && old->second;
    difference.emplace(server, both ? Result<metrics::Snapshot>(snapshot->since(*old->second)) : snapshot);
  }
  return difference;
}

/// Samples of all servers, distinguished by a label.
std::string prometheus(const Snapshots& all) {
  metrics::Snapshot joined;
  for (const auto& [server, snapshot] : all) {
    if (!snapshot) continue;
    for (metrics::Sample sample : snapshot->samples()) {
      sample.labels.insert(sample.labels.begin(), {"server", std::to_string(server.value)});
      std::ignore = joined.add(std::move(sample));  // servers of one version have the same kinds
    }
  }
  return joined.prometheus();
}

metrics::Snapshot total_of(const Snapshots& all) {
  metrics::Snapshot total;
  for (const auto& [server, snapshot] : all) {
    if (snapshot) std::ignore = total.merge(*snapshot);
  }
  return total;
}

std::string server_title(const config::ServerConfig& server) {
  std::string roles = server.roles.meta ? (server.roles.io ? "meta, io" : "meta") : (server.roles.io ? "io" : "");
  if (server.roles.block) roles += roles.empty() ? "block" : ", block";
  return fmt::format("server {} ({}) {}\n", server.id.value, roles, shown_url(server.urls));
}

std::string tables(const config::FileSystemConfig& config, const Snapshots& all, double seconds) {
  std::string text;
  for (const auto& [server, snapshot] : all) {
    if (snapshot) text += server_title(*config.find_server(server)) + stats_table(*snapshot, seconds) + "\n";
  }
  const auto answered =
      static_cast<std::size_t>(std::ranges::count_if(all, [](const auto& one) { return one.second.has_value(); }));
  if (answered < 2) return text;
  text += answered == all.size() ? fmt::format("all {} servers\n", answered)
                                 : fmt::format("{} of {} servers\n", answered, all.size());
  text += stats_table(total_of(all), seconds);
  return text;
}

nlohmann::json rows(const Snapshots& all) {
  nlohmann::json servers = nlohmann::json::array();
  for (const auto& [server, snapshot] : all) {
    nlohmann::json row =
        snapshot ? to_json(*snapshot)
                 : nlohmann::json{{"error", snapshot.error().message()}, {"code", name(snapshot.error().code())}};
    row["server"] = server.value;
    servers.push_back(std::move(row));
  }
  return {{"servers", servers}, {"total", to_json(total_of(all))}};
}

void show(Context& context, const StatsOptions& options, const config::FileSystemConfig& config, const Snapshots& all,
          double seconds) {
  if (options.prometheus) {
    print(prometheus(all));
  } else if (context.json) {
    context.print_json(rows(all));
  } else {
    const bool redraw = seconds > 0 && context.stdout_is_terminal();
    print((redraw ? "\033[H\033[2J" : "") + tables(config, all, seconds));
  }
}

/// Sends a request for statistics to the servers. Fails if no server could be asked.
Result<Snapshots> ask(Asker& asker, const std::vector<ServerId>& servers) {
  SPATE_TRY(const auto replies, asker.ask<wire::StatsReply>(wire::StatsRequest(), servers));
  Snapshots snapshots;
  for (const auto& [server, reply] : replies) {
    snapshots.emplace(server,
                      reply ? metrics::Snapshot::decode(reply->snapshot) : Result<metrics::Snapshot>(reply.error()));
  }
  return snapshots;
}

int run_stats(Context& context, const StatsOptions& options) {
  if (options.watch_s && (*options.watch_s == 0 || *options.watch_s > 24 * 3600))
    return context.usage("--watch takes seconds, 1 to 86400");
  if (options.rounds && (*options.rounds == 0 || !options.watch_s))
    return context.usage("--rounds takes a number of 1 or more, with --watch");
  auto asker = Asker::open(context);
  if (!asker) return context.fail(asker.error());
  const config::FileSystemConfig& config = asker->process().config();
  auto servers = chosen_servers(config, options.servers);
  if (!servers) return context.usage(servers.error().message());
  Snapshots before;
  MonoTime asked_before{};
  int code = kExitOk;
  const std::uint64_t rounds = options.watch_s ? options.rounds.value_or(UINT64_MAX) : 1;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    if (round > 0) asker->wait(std::chrono::seconds(*options.watch_s));
    const MonoTime asked = asker->process().clock().now();
    auto now = ask(*asker, *servers);
    if (!now) {
      code = context.fail(now.error());
      continue;
    }
    for (const auto& [server, snapshot] : *now) {
      // A meta server that does not lead answers no client.
      if (!snapshot && snapshot.code() != Errc::kNotPrimary) code = context.fail_of(server, snapshot.error());
    }
    const double seconds = round == 0 ? 0 : std::chrono::duration<double>(asked - asked_before).count();
    show(context, options, config, round == 0 ? *now : since(*now, before), seconds);
    before = *std::move(now);
    asked_before = asked;
  }
  return code;
}

}  // namespace

Command make_stats() {
  auto options = std::make_shared<StatsOptions>();
  Command command;
  command.name = "stats";
  command.group = "Look";
  command.summary = "show what each server has done: counts and latencies of each operation, and their sum";
  command.details =
      "Counts begin when a server is started. With --watch the first table has these counts, and each later one has\n"
      "what was added since the last.\n"
      "Percentiles are within 3.2%. Times in JSON and for Prometheus are nanoseconds.";
  command.positionals = {{"SERVER", "numbers of servers (all)", &options->servers}};
  command.options = {
      {"-w,--watch", "SECONDS between tables of what was done since the last one, with rates", &options->watch_s},
      {"-n,--rounds", "with --watch: end after this number of tables", &options->rounds},
      {"--prometheus", "print Prometheus' text format, with the server as a label", &options->prometheus}};
  command.run = [options](Context& context) { return run_stats(context, *options); };
  return command;
}

}  // namespace spate::tools
