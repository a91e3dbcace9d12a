// SPDX-License-Identifier: Apache-2.0
// main() of spated, the server daemon.
#include <getopt.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include "assembly/server_process.h"
#include "base/open_files.h"
#include "base/printable.h"
#include "daemon/block_role.h"
#include "daemon/log_rotation.h"
#include "daemon/memory.h"
#include "daemon/metrics_page.h"
#include "daemon/service_manager.h"
#include "log/log.h"

namespace {

constexpr const char* kUsage =
    "usage: spated --config FILE --server ID [--format [--serve]] [--metrics ADDRESS] [--set SECTION.KEY=VALUE ...]\n"
    "Serves one server of a spate.toml, in the foreground, until SIGTERM or SIGINT. SIGHUP reopens the log file.\n"
    "`spate up` starts all servers of a file system on this machine.\n"
    "\n"
    "  -c, --config FILE   the file system's spate.toml\n"
    "  -s, --server ID     the number of the server\n"
    "      --format        makes the missing stores of this server, empty, and ends. Use it once for a new server or\n"
    "                      a new disk. Without it the server refuses a missing store: its disk may not be mounted\n"
    "      --serve         with --format: serves afterwards\n"
    "      --set KEY=VALUE  overrides the file (see `spate config explain`); so does SPATE_SECTION_KEY in the "
    "environment\n"
    "      --metrics ADDRESS  answers GET /metrics (Prometheus) and /healthz there, for every client. ADDRESS is a\n"
    "                      PORT of 127.0.0.1, or HOST:PORT with a numeric address of this machine. Port 0: a free\n"
    "                      one, which the log names. It overrides metrics.port and metrics.address of the file\n"
    "  -h, --help          prints this text\n"
    "  -V, --version       prints the version\n"
    "\n"
    "Exit codes: 0 an orderly stop, 1 the server cannot serve, 2 a wrong command line.\n";

// Set before the handlers are installed. A handler may call request_exit(): an atomic store and a write to an eventfd.
std::atomic<spate::assembly::ServerProcess*> running{nullptr};

std::atomic<spate::daemon::BlockRole*> block{nullptr};

/// A signal has asked for the end, perhaps between two openings of the server.
std::atomic<bool> asked_to_end{false};

/// The role block ends first, because it flushes to this server. When it has ended, it asks the server to end.
void on_signal(int) {
  asked_to_end = true;
  auto* const role = block.load();
  if (role != nullptr && role->ask_to_end()) return;
  if (auto* process = running.load()) process->request_exit();
}

int usage_error(const std::string& what) {
  std::fprintf(stderr, "spated: %s\n%s", what.c_str(), kUsage);
  return 2;
}

int fail(const spate::Error& error) {
  std::fprintf(stderr, "spated: %s\n", spate::printable_lines(error.message()).c_str());
  return 1;
}

/// Returns 0 if the text is not a server's number.
spate::ServerId parse_server(const char* text) {
  std::uint32_t id = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, id);
  return spate::ServerId(error == std::errc() && stop == end ? id : 0);
}

/// Starts the role block. If it ends, or cannot start, the server ends, too.
spate::Result<void> start_block(const spate::assembly::ServerSettings& settings, spate::assembly::ServerProcess& server,
                                std::unique_ptr<spate::daemon::BlockRole>& role) {
  auto started = spate::daemon::BlockRole::start(settings, [&server] { server.request_exit(); });
  if (!started) {
    server.request_exit();
    return std::move(started).error();
  }
  role = *std::move(started);
  block = role.get();
  return {};
}

/// Makes the stores and ends. It is an ordinary start, so requests that come meanwhile are answered.
int format(const spate::assembly::ServerSettings& settings) {
  std::signal(SIGXFSZ, SIG_IGN);
  auto process = spate::assembly::ServerProcess::open(settings);
  if (!process) return fail(process.error());
  const auto ended = (*process)->run([&server = **process] { server.request_exit(); });
  if (!ended) return fail(ended.error());
  std::string folders;
  for (const std::string& folder : (*process)->self().storage) folders += " " + folder;
  return std::printf("server %u can be started; its stores are in%s\n", settings.server.value, folders.c_str()) < 0;
}

/// The address of this server's page by the configuration; empty: it has none.
std::string metrics_address(const spate::config::MetricsConfig& config, spate::ServerId server) {
  if (config.port == 0) return {};
  const bool v6 = config.address.find(':') != std::string::npos;
  return (v6 ? "[" + config.address + "]" : config.address) + ":" + std::to_string(config.port + server.value - 1);
}

/// The address of --metrics takes the place of the configured one. The log says so, since a scraper that goes by the
/// file finds nothing.
std::string chosen_metrics_address(const std::string& given, const std::string& configured) {
  if (given.empty()) return configured;
  const bool same = given == configured || "127.0.0.1:" + given == configured;
  if (!configured.empty() && !same)
    SPATE_LOG("daemon", warn, "--metrics {} takes the place of the configured metrics address {}", given, configured);
  return given;
}

/// Returns null if `address` is empty. `serving`: whether requests are answered, for /healthz.
spate::Result<std::unique_ptr<spate::http::Server>> start_metrics(const std::string& address,
                                                                  const spate::assembly::ServerProcess& server,
                                                                  const std::atomic<bool>& serving) {
  if (address.empty()) return std::unique_ptr<spate::http::Server>();
  auto page = spate::daemon::start_metrics_page(address, server.metrics(), [&serving] { return serving.load(); });
  if (page) SPATE_LOG("daemon", info, "metrics are served url={}/metrics", (*page)->url());
  return page;
}

/// Serves until a signal comes, or until the server must be opened again: then sets `again`. Returns the exit status.
int serve_once(const spate::assembly::ServerSettings& settings, const std::string& given_metrics_address,
               spate::daemon::LogRotation& rotation, spate::daemon::MemoryTrimmer& memory, bool& again) {
  again = false;
  auto process = spate::assembly::ServerProcess::open(settings);
  if (!process) return fail(process.error());
  std::atomic<bool> serving = false;
  const std::string address =
      chosen_metrics_address(given_metrics_address, metrics_address((*process)->config().metrics, settings.server));
  const auto metrics = start_metrics(address, **process, serving);
  if (!metrics) return fail(metrics.error());
  running = process->get();
  std::signal(SIGTERM, on_signal);
  std::signal(SIGINT, on_signal);
  if (asked_to_end) (*process)->request_exit();  // the signal came while no process was open
  memory.on_trim([&server = **process] { server.trim_memory(); });
  rotation.on_signal([&server = **process] { return server.reopen_audit(); });
  std::unique_ptr<spate::daemon::BlockRole> role;
  spate::Result<void> block_outcome;
  const auto ended = (*process)->run([&] {
    if ((*process)->self().roles.block) block_outcome = start_block(settings, **process, role);
    if (!block_outcome) return;
    serving = true;
    spate::daemon::notify_service_manager("READY=1");
  });
  serving = false;
  spate::daemon::notify_service_manager("STOPPING=1");
  memory.on_trim({});
  rotation.on_signal({});
  block = nullptr;
  if (role != nullptr && role->failed())
    block_outcome = spate::Error::told(spate::Errc::kIoError, "the process of the role block has ended");
  role.reset();
  running = nullptr;
  if (!ended) return fail(ended.error());
  again = (*process)->is_to_restart() && !asked_to_end;
  return block_outcome ? 0 : fail(block_outcome.error());
}

/// Raises the limit of open files, since each client takes a few descriptors, and each datafile in use takes one. Fails
/// if even the highest limit is too low to serve.
spate::Result<void> raise_descriptor_limit() {
  // The keyval store takes up to 256, datafiles as many, and there must be room for clients.
  constexpr rlim_t kFewest = 512;
  SPATE_TRY(const rlim_t limit, spate::raise_open_files_limit());
  if (limit >= kFewest) return {};
  return spate::Error::told(spate::Errc::kNotSupported, "this process may open " + std::to_string(limit) +
                                                            " files, a server needs " + std::to_string(kFewest) +
                                                            ": raise `ulimit -n`, or LimitNOFILE= of its systemd unit");
}

int serve(const spate::assembly::ServerSettings& settings, const std::string& given_metrics_address) {
  spate::daemon::LogRotation rotation;
  spate::daemon::MemoryTrimmer memory;
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // makes a write beyond the limit of file size fail with an error instead
  const auto raised = raise_descriptor_limit();
  if (!raised) return fail(raised.error());
  int code = 0;
  for (bool again = true; again && !asked_to_end;) {
    code = serve_once(settings, given_metrics_address, rotation, memory, again);
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  spate::fill_standard_descriptors();
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  auto overrides = spate::config::overrides_from_environment(environment);
  if (!overrides) return fail(overrides.error());
  spate::assembly::ServerSettings settings;
  settings.overrides = *std::move(overrides);
  const option options[] = {{"config", required_argument, nullptr, 'c'},
                            {"server", required_argument, nullptr, 's'},
                            {"set", required_argument, nullptr, 'o'},
                            {"help", no_argument, nullptr, 'h'},
                            {"format", no_argument, nullptr, 'f'},
                            {"serve", no_argument, nullptr, 'r'},
                            {"version", no_argument, nullptr, 'V'},
                            {"metrics", required_argument, nullptr, 'm'},
                            {nullptr, 0, nullptr, 0}};
  std::string given_metrics_address;
  bool and_serve = false;
  for (int c = 0; (c = ::getopt_long(argc, argv, "c:s:hV", options, nullptr)) != -1;) {
    if (c == 'c') {
      settings.config_file = optarg;
    } else if (c == 's') {
      settings.server = parse_server(optarg);
      if (!settings.server) return usage_error("no server number: " + std::string(optarg));
    } else if (c == 'm') {
      given_metrics_address = optarg;
    } else if (c == 'f') {
      settings.format = true;
    } else if (c == 'r') {
      and_serve = true;
    } else if (c == 'o') {
      auto one = spate::config::override_from_argument(optarg);
      if (!one) return fail(one.error());
      settings.overrides.push_back(*std::move(one));
    } else if (c == 'h' || c == 'V') {
      return std::fputs(c == 'h' ? kUsage : "spated " SPATE_VERSION "\n", stdout) < 0 ? 1 : 0;
    } else {
      return usage_error("see above");
    }
  }
  if (optind < argc) return usage_error("unexpected argument: " + std::string(argv[optind]));
  if (settings.config_file.empty() || !settings.server) return usage_error("--config and --server are needed");
  return settings.format && !and_serve ? format(settings) : serve(settings, given_metrics_address);
}
