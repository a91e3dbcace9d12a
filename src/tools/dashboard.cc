// SPDX-License-Identifier: Apache-2.0
// `spate dashboard`: a page to look at.
#include <fmt/core.h>
#include <signal.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "tools/commands.h"
#include "tools/dashboard_path.h"
#include "tools/dashboard_site.h"
#include "tools/dashboard_watch.h"

namespace spate::tools {
namespace {

struct DashboardOptions {
  std::uint64_t port = 7480;
  std::uint64_t interval_s = 2;
};

/// The deadline of requests for a path of the page, unless the user has set client.deadline.
constexpr const char* kTimeout = "client.deadline=5s";
/// Threads that answer HTTP requests. Each may wait for a server while the others go on.
constexpr unsigned kThreads = 4;

std::atomic<bool> dashboard_ends = false;  // set by a signal

void end_dashboard(int) { dashboard_ends = true; }

std::string new_token() {
  SystemRandom random;
  return fmt::format("{:016x}{:016x}", random.next(), random.next());
}

Result<std::string> path_json(assembly::ClientProcess& process, const std::string& path, std::uint64_t from) {
  SPATE_TRY(const nlohmann::json told, look_at_path(process, shown_name(path), from));
  return told.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void tell(Context& context, const std::string& url, const std::string& token) {
  const std::string address = url + "/#token=" + token;
  if (context.json) {
    context.print_json({{"url", address}});
  } else {
    print(address + "\n");
  }
  if (!context.json && !context.quiet)
    print(
        "Open this address in a browser on this machine. Anybody who has the address may look. Ctrl-C ends the "
        "dashboard.\n");
  std::fflush(stdout);
}

/// Sleeps until the next round, but looks a few times a second whether the command is to end.
void wait_for_next(assembly::ClientProcess& process, std::uint64_t seconds) {
  const MonoTime next = process.clock().now() + std::chrono::seconds(seconds);
  while (!dashboard_ends && process.clock().now() < next) {
    process.run([](client::Client& client) -> job::Task<void> {
      std::ignore = co_await client.cluster().executor().sleep(std::chrono::milliseconds(200));
    });
  }
}

int run_dashboard(Context& context, const DashboardOptions& options) {
  if (options.interval_s == 0 || options.interval_s > 3600) return context.usage("--interval takes seconds, 1 to 3600");
  if (options.port > 65535) return context.usage("--port takes a number, 0 to 65535");
  context.overrides.insert(context.overrides.begin(), kTimeout);
  context.names_dead_servers = false;
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  DashboardWatch watch(context, **process);
  const std::string token = new_token();
  const DashboardSite site(
      token, {[&] { return watch.state(); },
              [&](const std::string& path, std::uint64_t from) { return path_json(**process, path, from); }});
  watch.ask();
  http::Options where;
  where.address = std::to_string(options.port);
  where.what = "the dashboard";
  where.threads = kThreads;
  auto server = http::Server::start(where, [&](const http::Request& request) { return site.answer(request); });
  if (!server && server.code() == Errc::kBusy)
    return context.fail(fmt::format("port {} is in use; `spate dashboard --port 0` takes a free one", options.port));
  if (!server) return context.fail(server.error());
  ::signal(SIGINT, end_dashboard);
  ::signal(SIGTERM, end_dashboard);
  tell(context, (*server)->url(), token);
  while (!dashboard_ends) {
    wait_for_next(**process, options.interval_s);
    if (!dashboard_ends) watch.ask();
  }
  return kExitOk;
}

}  // namespace

Command make_dashboard() {
  auto options = std::make_shared<DashboardOptions>();
  Command command;
  command.name = "dashboard";
  command.group = "Look";
  command.summary =
      "serve a page for a browser: servers, space, throughput, the busiest clients, and where a file lies";
  command.details =
      "The page changes nothing, and shows what this user may see. It is served at 127.0.0.1 only, to every browser\n"
      "that has the token in the printed address. From another machine: ssh -L 7480:localhost:7480 HOST, then open\n"
      "the same address.";
  command.options = {{"-p,--port", "PORT of 127.0.0.1; 0: a free one (7480)", &options->port},
                     {"-i,--interval", "SECONDS between two requests to the servers (2)", &options->interval_s}};
  command.run = [options](Context& context) { return run_dashboard(context, *options); };
  return command;
}

}  // namespace spate::tools
