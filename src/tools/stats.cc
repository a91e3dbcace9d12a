// SPDX-License-Identifier: Apache-2.0
// `spate stats`: prints the servers' counters and measurements.
#include "tools/stats.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "fsck/servers.h"
#include "job/gate.h"
#include "tools/commands.h"
#include "tools/fsck.h"
#include "tools/name_space.h"
#include "tools/probe.h"

namespace spate::tools {
namespace {

/// The largest accepted snapshot, bytes.
constexpr std::uint32_t kSnapshotRoom = 2U << 20U;
constexpr Duration kDeadline = std::chrono::seconds(5);

struct StatsOptions {
  std::vector<std::string> servers;
  std::optional<std::uint64_t> watch_s;
  std::optional<std::uint64_t> rounds;
  bool prometheus = false;
};

using Snapshots = std::map<ServerId, Result<metrics::Snapshot>>;

job::Task<Result<metrics::Snapshot>> ask(client::Client& client, ServerId server) {
  const auto found = client.session().servers().channels().find(server);
  if (found == client.session().servers().channels().end())
    co_return Error::told(Errc::kNotFound, "there is no such server in spate.toml");
  rpc::CallOptions options;
  options.deadline = client.cluster().executor().now() + kDeadline;
  options.reply_room = kSnapshotRoom;
  const wire::StatsRequest request;
  auto reply = co_await found->second->call<wire::StatsReply>(request, options);
  if (!reply) co_return std::move(reply).error();
  co_return metrics::Snapshot::decode(reply->snapshot);
}

job::Task<void> ask_into(client::Client& client, ServerId server, Result<metrics::Snapshot>& out) {
  out = co_await ask(client, server);
}

job::Task<Result<void>> ask_all(client::Client& client, Snapshots& all) {
  SPATE_CO_TRY(std::ignore, co_await client.connect());
  job::Gate gate(client.cluster().executor());
  for (auto& [server, snapshot] : all) job::spawn(gate, ask_into(client, server, snapshot));
  co_await gate.close();
  co_return Result<void>();
}

job::Task<void> ask_by_key(fsck::Servers& servers, ServerId server, Result<metrics::Snapshot>& out) {
  const wire::StatsRequest request;
  auto reply = co_await servers.ask_io<wire::StatsReply>(server, request, kSnapshotRoom);
  if (reply) {
    out = metrics::Snapshot::decode(reply->snapshot);
  } else {
    out = std::move(reply).error();
  }
}

job::Task<void> ask_all_by_key(job::Executor& executor, fsck::Servers& servers, Snapshots& all) {
  servers.forget_failures();
  job::Gate gate(executor);
  for (auto& [server, snapshot] : all) job::spawn(gate, ask_by_key(servers, server, snapshot));
  co_await gate.close();
}

/// Asks servers for snapshots. They answer only callers with a session or the server key; without a meta server there
/// is no session.
class Asker {
 public:
  static Result<Asker> open(Context& context) {
    Asker asker;
    context.names_dead_servers = false;
    SPATE_TRY(asker.process_, context.file_system());
    for (const config::ServerConfig& server : asker.process_->config().servers) {
      if (server.roles.meta && !is_surely_down(server)) return asker;
    }
    SPATE_TRY(const std::string file, context.config_file());
    SPATE_TRY(assembly::ClientSettings settings, context.client_settings(file));
    settings.server_key = true;
    auto keyed = assembly::ClientProcess::open(settings);
    if (!keyed) {
      return std::move(keyed).error().within(
          "the meta server is down; without it, whoever can read the server key may ask");
    }
    asker.keyed_ = *std::move(keyed);
    client::Session& session = asker.keyed_->client().session();
    fsck::ServersOptions options = servers_options(session);
    options.deadline = options.io_deadline = kDeadline;
    asker.servers_ = std::make_unique<fsck::Servers>(std::move(options), session.network(), asker.keyed_->random());
    return asker;
  }

  assembly::ClientProcess& process() { return *process_; }
  /// Fails if no server could be asked.
  Result<void> ask(Snapshots& all) {
    if (servers_ == nullptr) return process_->run([&](client::Client& client) { return ask_all(client, all); });
    keyed_->run([&](client::Client& client) { return ask_all_by_key(client.cluster().executor(), *servers_, all); });
    return {};
  }

 private:
  Asker() = default;
  static bool is_surely_down(const config::ServerConfig& server) {
    const bool tcp = std::all_of(server.urls.begin(), server.urls.end(),
                                 [](const std::string& url) { return url.starts_with("tcp://"); });
    return tcp && !answers(server.urls);
  }
  assembly::ClientProcess* process_ = nullptr;  // the context's
  std::unique_ptr<assembly::ClientProcess> keyed_;
  std::unique_ptr<fsck::Servers> servers_;
};

/// Keeps the session alive meanwhile.
job::Task<void> wait(client::Client& client, Duration span) {
  std::ignore = co_await client.cluster().executor().sleep(span);
}

Result<std::vector<ServerId>> chosen(const config::FileSystemConfig& config, const std::vector<std::string>& names) {
  std::vector<ServerId> servers;
  for (const config::ServerConfig& server : config.servers) {
    const bool named = std::find(names.begin(), names.end(), std::to_string(server.id.value)) != names.end();
    if (names.empty() || named) servers.push_back(server.id);
  }
  if (!names.empty() && servers.size() != names.size()) {
    return Error::told(Errc::kInvalidArgument,
                       "a SERVER is the number of a server in spate.toml; `spate status` lists them");
  }
  return servers;
}

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
  return fmt::format("server {} ({}) {}\n", server.id.value, roles, server.urls.front());
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

int run_stats(Context& context, const StatsOptions& options) {
  if (options.watch_s && (*options.watch_s == 0 || *options.watch_s > 24 * 3600))
    return context.usage("--watch takes seconds, 1 to 86400");
  if (options.rounds && (*options.rounds == 0 || !options.watch_s))
    return context.usage("--rounds takes a number of 1 or more, with --watch");
  auto asker = Asker::open(context);
  if (!asker) return context.fail(asker.error());
  assembly::ClientProcess& process = asker->process();
  const config::FileSystemConfig& config = process.config();
  auto servers = chosen(config, options.servers);
  if (!servers) return context.usage(servers.error().message());
  Snapshots before;
  MonoTime asked_before{};
  int code = kExitOk;
  const std::uint64_t rounds = options.watch_s ? options.rounds.value_or(UINT64_MAX) : 1;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    if (round > 0)
      process.run([&](client::Client& client) { return wait(client, std::chrono::seconds(*options.watch_s)); });
    Snapshots now;
    for (const ServerId server : *servers) now.emplace(server, Errc::kUnknown);
    const MonoTime asked = process.clock().now();
    if (const auto all = asker->ask(now); !all) {
      code = context.fail(all.error());
      continue;
    }
    for (const auto& [server, snapshot] : now) {
      // A meta server that does not lead answers no client.
      if (!snapshot && snapshot.code() != Errc::kNotPrimary) code = context.fail_of(server, snapshot.error());
    }
    const double seconds = round == 0 ? 0 : std::chrono::duration<double>(asked - asked_before).count();
    show(context, options, config, round == 0 ? now : since(now, before), seconds);
    before = std::move(now);
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
  command.summary = "what each server has done: counts and latencies of each operation, and their sum";
  command.details =
      "Counted since the server was started; with --watch the first table is that, each later one what came since the "
      "last.\n"
      "Percentiles are within 3.2%. Times in JSON and for Prometheus are nanoseconds.";
  command.positionals = {{"SERVER", "numbers of servers (all)", &options->servers}};
  command.options = {
      {"-w,--watch", "SECONDS: again and again, what was done in between, with rates", &options->watch_s},
      {"-n,--rounds", "with --watch: end after so many tables", &options->rounds},
      {"--prometheus", "in Prometheus' text format, the server as a label", &options->prometheus}};
  command.run = [options](Context& context) { return run_stats(context, *options); };
  return command;
}

}  // namespace spate::tools
