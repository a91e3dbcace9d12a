// SPDX-License-Identifier: Apache-2.0
#include "tools/dashboard_watch.h"

#include <nlohmann/json.hpp>

#include "model/server_url.h"
#include "tools/name_space.h"

namespace spate::tools {
namespace {

constexpr Duration kPingTimeout = std::chrono::seconds(1);
constexpr Duration kSpaceTimeoutOfRound = std::chrono::seconds(1);

template <typename T>
std::map<ServerId, T> good_ones(std::map<ServerId, Result<T>> all) {
  std::map<ServerId, T> good;
  for (auto& [server, one] : all) {
    if (one) good.emplace(server, *std::move(one));
  }
  return good;
}

nlohmann::json targets_of(const client::SpaceUse& space, ServerId id) {
  nlohmann::json targets = nlohmann::json::array();
  for (const auto& server : space.servers) {
    if (server.server != id) continue;
    for (const wire::TargetSpace& target : server.targets)
      targets.push_back({{"target", target.target.value},
                         {"total", target.total_bytes},
                         {"free", target.free_bytes},
                         {"store", target.store},
                         {"state", target.free_bytes < kFullBelow ? "full" : "up"}});
  }
  return targets;
}

nlohmann::json rows_of(LoadView view, std::string_view group) {
  view.rows = grouped(std::move(view.rows), group);
  sort_rows(view.rows, "load");
  return to_json(view, DashboardWatch::kMostRows);
}

}  // namespace

/// The servers' answers of one round.
struct DashboardWatch::Round {
  MonoTime asked;
  std::vector<config::ServerConfig> servers;
  std::map<ServerId, Result<PingResult>> pings;
  Result<client::SpaceUse> space = Errc::kUnknown;
  std::map<ServerId, metrics::Snapshot> counters;
  LoadReplies loads;
  FileLoadReplies file_loads;
  std::vector<std::string> troubles;

  std::vector<ServerId> up() const {
    std::vector<ServerId> all;
    for (const auto& [server, ping] : pings) {
      if (ping) all.push_back(server);
    }
    return all;
  }
};

DashboardWatch::DashboardWatch(Context& context, assembly::ClientProcess& process)
    : context_(context), process_(process), names_(process) {}

DashboardWatch::~DashboardWatch() = default;

std::string DashboardWatch::state() const {
  const std::scoped_lock lock(mutex_);
  return state_;
}

void DashboardWatch::ask() {
  auto round = std::make_unique<Round>();
  round->asked = process_.clock().now();
  round->servers = all_servers(process_);
  std::vector<ServerId> ids;
  for (const config::ServerConfig& server : round->servers) ids.push_back(server.id);
  PingOptions how;
  how.deadline = kPingTimeout;
  round->pings = ping_all(process_, ids, how);
  round->space = process_.run([](client::Client& c) { return c.space_of_those_there(kSpaceTimeoutOfRound); });
  if (!round->space) round->troubles.push_back(round->space.error().message());
  ask_counters(*round);
  ask_loads(*round);
  const nlohmann::json busiest = busiest_of(*round);
  nlohmann::json points = nlohmann::json::array();
  for (const RatePoint& point : points_) points.push_back(to_json(point));
  keep({{"name", process_.config().fs.name},
        {"time_ms", process_.clock().wall().ns / 1'000'000},
        {"servers", servers_of(*round)},
        {"space", round->space ? nlohmann::json({{"total", round->space->total_bytes},
                                                 {"free", round->space->free_bytes},
                                                 {"objects", round->space->objects}})
                               : nlohmann::json()},
        {"points", std::move(points)},
        {"busiest", busiest},
        {"work", work_of(*round)},
        {"troubles", round->troubles}});
  before_ = std::move(round);
}

void DashboardWatch::ask_counters(Round& round) {
  if (!asker_) {
    auto opened = Asker::open(context_);
    if (!opened) {
      round.troubles.push_back(opened.error().message());
      return;
    }
    asker_.emplace(*std::move(opened));
  }
  auto replies = asker_->ask<wire::StatsReply>(wire::StatsRequest(), round.up());
  if (!replies) {
    round.troubles.push_back(replies.error().message());
    return;
  }
  for (auto& [server, reply] : good_ones(*std::move(replies))) {
    auto snapshot = metrics::Snapshot::decode(reply.snapshot);
    if (snapshot) round.counters.emplace(server, *std::move(snapshot));
  }
  if (!before_) return;
  metrics::Snapshot change;
  for (const auto& [server, snapshot] : round.counters) {
    const auto old = before_->counters.find(server);
    if (old != before_->counters.end()) std::ignore = change.merge(snapshot.since(old->second));
  }
  const double seconds = std::chrono::duration<double>(round.asked - before_->asked).count();
  points_.push_back(rates_of(change, seconds, process_.clock().wall().ns / 1'000'000));
  if (points_.size() > kMostPoints) points_.pop_front();
}

void DashboardWatch::ask_loads(Round& round) {
  if (!asker_) return;
  auto loads = asker_->ask<wire::ListLoadsReply>(wire::ListLoadsRequest(), round.up());
  if (loads) round.loads = good_ones(*std::move(loads));
  auto files = asker_->ask<wire::ListFileLoadsReply>(wire::ListFileLoadsRequest(), round.up());
  if (files) round.file_loads = good_ones(*std::move(files));
}

nlohmann::json DashboardWatch::servers_of(const Round& round) const {
  nlohmann::json servers = nlohmann::json::array();
  for (const config::ServerConfig& server : round.servers) {
    const auto& ping = round.pings.at(server.id);
    nlohmann::json row = {{"server", server.id.value}, {"url", shown_url(server.urls)}, {"up", ping.has_value()}};
    if (ping) {
      row["roles"] = ping->reply.roles;
      row["uptime_ms"] = ping->reply.uptime_ms;
      row["software"] = ping->reply.software;
      row["targets"] = round.space ? targets_of(*round.space, server.id) : nlohmann::json::array();
    } else {
      row["error"] = ping.error().message();
    }
    const auto counters = round.counters.find(server.id);
    const bool both = before_ && counters != round.counters.end() && before_->counters.contains(server.id);
    if (both) {
      const double seconds = std::chrono::duration<double>(round.asked - before_->asked).count();
      row["now"] = to_json(rates_of(counters->second.since(before_->counters.at(server.id)), seconds, 0));
    }
    servers.push_back(std::move(row));
  }
  return servers;
}

nlohmann::json DashboardWatch::busiest_of(const Round& round) {
  if (!before_) return nlohmann::json::object();
  const LoadView clients = loads_between(before_->loads, round.loads, &user_name);
  nlohmann::json told;
  for (const char* const group : {"client", "job", "user"}) told[group] = rows_of(clients, group)["clients"];
  LoadView files = file_loads_between(before_->file_loads, round.file_loads);
  sort_rows(files.rows, "load");
  names_.name(files.rows, kMostRows);
  told["file"] = to_json(files, kMostRows)["files"];
  return told;
}

nlohmann::json DashboardWatch::work_of(const Round& round) const {
  nlohmann::json work = nlohmann::json::array();
  metrics::Snapshot change;
  for (const auto& [server, snapshot] : round.counters) {
    for (nlohmann::json one : pending_work(snapshot)) {
      one["server"] = server.value;
      work.push_back(std::move(one));
    }
    const bool both = before_ && before_->counters.contains(server);
    if (both) std::ignore = change.merge(snapshot.since(before_->counters.at(server)));
  }
  return {{"pending", work}, {"fsck", fsck_work(change)}};
}

void DashboardWatch::keep(const nlohmann::json& state) {
  std::string text = state.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const std::scoped_lock lock(mutex_);
  state_ = std::move(text);
}

}  // namespace spate::tools
