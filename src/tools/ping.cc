// SPDX-License-Identifier: Apache-2.0
// `spate ping`.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/name_space.h"
#include "tools/probe.h"
#include "tools/text.h"
#include "tools/up_down.h"

namespace spate::tools {
namespace {

struct PingArguments {
  std::uint64_t count = 5;
  std::uint64_t timeout_ms = 3000;
};

double microseconds(Duration d) { return static_cast<double>(d.count()) / 1000.0; }

/// Why this address was used: the first of the server's addresses that reaches it is taken.
std::string reason(const config::ServerConfig& server, const bmi::PeerInfo& peer) {
  const auto& urls = server.urls;
  const auto at = std::find(urls.begin(), urls.end(), peer.url);
  std::string why = urls.size() == 1   ? "its only address"
                    : at == urls.end() ? "as the address resolved"
                    : at == urls.begin()
                        ? fmt::format("the first of its {} addresses", urls.size())
                        : fmt::format("number {} of its {} addresses", at - urls.begin() + 1, urls.size());
  if (peer.same_host) why += ", on this host";
  if (!peer.security.empty()) why += ", " + peer.security;
  for (const bmi::FailedUrl& failed : peer.failed) why += fmt::format("; {} failed: {}", failed.url, failed.reason);
  return why;
}

nlohmann::json row_of(const config::ServerConfig& server, const PingResult& pinged) {
  const auto& times = pinged.round_trips;
  nlohmann::json failed = nlohmann::json::array();
  for (const bmi::FailedUrl& one : pinged.peer.failed) failed.push_back({{"url", one.url}, {"reason", one.reason}});
  return {{"server", server.id.value},
          {"url", pinged.peer.url},
          {"why", reason(server, pinged.peer)},
          {"same_host", pinged.peer.same_host},
          {"encryption", pinged.peer.security},
          {"failed", std::move(failed)},
          {"round_trip_us_min", microseconds(times.front())},
          {"round_trip_us_p50", microseconds(times[times.size() / 2])},
          {"round_trip_us_max", microseconds(times.back())},
          {"bytes_per_second", pinged.bytes_per_second}};
}

std::string text_of(const config::ServerConfig& server, const PingResult& pinged) {
  const auto& times = pinged.round_trips;
  return fmt::format(
      "server {:<3} {:<28} round trip {:.1f} us (min {:.1f}, max {:.1f}, {} times), {}/s in 8 KiB messages\n{:11}{}\n",
      server.id.value, pinged.peer.url, microseconds(times[times.size() / 2]), microseconds(times.front()),
      microseconds(times.back()), times.size(), human_size(static_cast<std::uint64_t>(pinged.bytes_per_second)), "",
      reason(server, pinged.peer));
}

int run_ping(Context& context, const PingArguments& options) {
  if (options.count < 1 || options.count > 1'000'000) return context.usage("--count takes 1 to 1000000");
  context.names_dead_servers = false;
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  nlohmann::json list = nlohmann::json::array();
  int code = kExitOk;
  for (const config::ServerConfig& server : all_servers(**process)) {
    PingOptions how;
    how.count = options.count;
    how.deadline = std::chrono::milliseconds(options.timeout_ms);
    how.bandwidth = true;
    auto pinged = ping(**process, server.id, how);
    if (!pinged) {
      code = context.fail_of(server.id, pinged.error());
      list.push_back(
          {{"server", server.id.value}, {"error", pinged.error().message()}, {"code", name(pinged.error().code())}});
      continue;
    }
    std::sort(pinged->round_trips.begin(), pinged->round_trips.end());
    list.push_back(row_of(server, *pinged));
    if (!context.json) print(text_of(server, *pinged));
  }
  if (context.json) context.print_json(list);
  return code;
}

}  // namespace

Command make_ping() {
  auto options = std::make_shared<PingArguments>();
  Command command;
  command.name = "ping";
  command.group = "Start and stop";
  command.summary = "measure round trip and bandwidth to each server, and show the network in use";
  command.options = {{"-c,--count", "round trips to each server (5)", &options->count},
                     {"--timeout", "ms to wait for a server (3000)", &options->timeout_ms}};
  command.run = [options](Context& context) { return run_ping(context, *options); };
  return command;
}

}  // namespace spate::tools
