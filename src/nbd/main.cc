// SPDX-License-Identifier: Apache-2.0
// main() of spate-export, which `spate export` starts.
#include <sys/epoll.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "assembly/client_process.h"
#include "assembly/locate.h"
#include "log/log.h"
#include "nbd/local_device.h"
#include "nbd/options.h"
#include "nbd/server.h"
#include "nbd/spate_device.h"

namespace {

using namespace spate;

constexpr std::string_view kRemote = "spate:";

bool is_remote(std::string_view source) { return source.starts_with(kRemote); }

constexpr unsigned kWorkers = 16;  // as many requests wait for disks at once
constexpr Duration kGrace = std::chrono::seconds(5);

/// Sets an event when the process is asked to end.
class EndSignals final : public nbd::ReadyHandler {
 public:
  EndSignals(job::Executor& executor, nbd::SocketSource& sockets) : asked_(executor), sockets_(sockets) {}
  ~EndSignals() override {
    if (fd_) sockets_.remove(fd_.get());
  }
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  Result<void> watch(const sigset_t& ends) {
    fd_ = UniqueFd(::signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd_) return errno_error(errno, "signalfd");
    return sockets_.add(fd_.get(), EPOLLIN, *this);
  }
  void on_ready(std::uint32_t /*events*/) override {
    signalfd_siginfo info{};
    if (::read(fd_.get(), &info, sizeof info) > 0) asked_.set();
  }
  auto asked() { return asked_.wait(); }

 private:
  job::Event asked_;
  nbd::SocketSource& sockets_;
  UniqueFd fd_;
};

int fail(const Error& error) {
  std::fprintf(stderr, "spate export: %s\n", error.message().c_str());
  return 1;
}

struct World {
  const nbd::ExportOptions& options;
  job::Executor& executor;
  trove::Workers& workers;
  client::Client* client;  // null: no export needs one
};

Result<std::vector<nbd::ListeningSocket>> open_sockets(const nbd::ExportOptions& options) {
  SPATE_TRY(auto sockets, nbd::activated_sockets());
  if (!sockets.empty()) return sockets;
  if (!options.unix_path.empty()) {
    SPATE_TRY(auto socket, nbd::listen_unix(options.unix_path));
    sockets.push_back(std::move(socket));
    if (options.addresses.empty() && !options.port_given) return sockets;
  }
  std::vector<std::string> addresses = options.addresses;
  if (addresses.empty()) addresses.emplace_back("127.0.0.1");
  for (const std::string& address : addresses) {
    SPATE_TRY(auto some, nbd::listen_tcp(address, options.port));
    for (auto& one : some) sockets.push_back(std::move(one));
  }
  return sockets;
}

job::Task<Result<std::unique_ptr<nbd::Device>>> open_device(World& world, std::string source) {
  const bool read_only = world.options.read_only;
  std::unique_ptr<nbd::Device> device;
  if (!is_remote(source)) {
    SPATE_CO_TRY(device, nbd::LocalDevice::open(source, read_only, world.executor, world.workers));
    co_return device;
  }
  std::string path = source.substr(kRemote.size());
  SPATE_CO_TRY(device, co_await nbd::SpateDevice::open(*world.client, std::move(path), read_only));
  co_return device;
}

job::Task<Result<void>> add_exports(World& world, nbd::Server& server) {
  for (const nbd::SourceWish& wish : world.options.sources) {
    nbd::Export exported;
    exported.name = wish.name;
    SPATE_CO_TRY(exported.access, nbd::AccessList::parse(world.options.allow));
    SPATE_CO_TRY(exported.device, co_await open_device(world, wish.source));
    server.add(std::move(exported));
  }
  co_return Result<void>();
}

void print_urls(const World& world, const nbd::Server& server) {
  if (world.options.quiet) return;
  for (const nbd::SourceWish& wish : world.options.sources) {
    for (const std::string& url : server.urls(wish.name)) std::printf("%s\n", url.c_str());
  }
  std::fflush(stdout);
}

job::Task<Result<void>> serve(World& world, nbd::Server& server, std::vector<nbd::ListeningSocket> sockets, EndSignals& signals) {
  SPATE_CO_TRY(std::ignore, co_await add_exports(world, server));
  for (auto& socket : sockets) {
    SPATE_CO_TRY(std::ignore, server.listen(std::move(socket)));
  }
  print_urls(world, server);
  std::ignore = co_await signals.asked();
  co_return co_await server.stop(kGrace);
}

/// Null without TLS, which is for this machine only unless the user says otherwise.
Result<std::unique_ptr<nbd::TlsContext>> open_tls(const nbd::ExportOptions& options, const std::vector<nbd::ListeningSocket>& sockets) {
  if (!options.tls_folder.empty() || !options.tls_keys.empty()) return nbd::make_tls({options.tls_folder, options.tls_keys});
  for (const nbd::ListeningSocket& socket : sockets) {
    if (socket.loopback || options.insecure) continue;
    return Error(Errc::kPermissionDenied, socket.url + " can be reached from other machines: use --tls DIR or --tls-psk FILE, or "
                                                       "--insecure if everybody who reaches it may have the data");
  }
  return std::unique_ptr<nbd::TlsContext>();
}

/// On an executor that is there already.
job::Task<Result<void>> serve_on(World& world, const sigset_t& ends) {
  nbd::SocketSource sockets(world.executor);
  EndSignals signals(world.executor, sockets);
  SPATE_CO_TRY(std::ignore, signals.watch(ends));
  SPATE_CO_TRY(auto listening, open_sockets(world.options));
  nbd::ServerOptions options;
  if (world.options.send_file_from != 0) options.send_file_from = world.options.send_file_from;
  SPATE_CO_TRY(const auto tls, open_tls(world.options, listening));
  options.tls_required = tls != nullptr && !world.options.insecure;
  nbd::Server server(world.executor, sockets, tls.get(), options);
  auto served = co_await serve(world, server, std::move(listening), signals);
  co_return served;
}

Result<std::unique_ptr<assembly::ClientProcess>> open_client(const nbd::ExportOptions& options) {
  assembly::ClientSettings settings;
  SPATE_TRY(settings.config_file, assembly::locate_config(options.file_system));
  SPATE_TRY(settings.overrides, config::overrides_from_environment(assembly::whole_environment()));
  for (const std::string& setting : options.settings) {
    SPATE_TRY(auto one, config::override_from_argument(setting));
    settings.overrides.push_back(std::move(one));
  }
  settings.program = "export";
  settings.credential = assembly::own_credential();
  settings.keeper = false;  // always inside a call
  return assembly::ClientProcess::open(settings);
}

Result<void> run(const nbd::ExportOptions& options, const sigset_t& ends) {
  trove::Workers workers("nbd", kWorkers);
  const bool remote = std::ranges::any_of(options.sources, [](const nbd::SourceWish& wish) { return is_remote(wish.source); });
  if (!remote) {
    SystemClock clock;
    job::Executor executor(clock);
    World world{options, executor, workers, nullptr};
    return executor.run(serve_on(world, ends));
  }
  SPATE_TRY(auto process, open_client(options));
  World world{options, process->executor(), workers, &process->client()};
  return process->run([&](client::Client& /*client*/) { return serve_on(world, ends); });
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = nbd::parse_export_options(std::vector<std::string>(argv + 1, argv + argc));
  if (!options && options.code() == Errc::kCancelled) return std::fputs(std::string(nbd::export_usage()).c_str(), stdout) < 0 ? 1 : 0;
  if (!options) {
    std::fprintf(stderr, "spate export: %s\nTry `spate export --help`.\n", options.error().message().c_str());
    return 2;
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::ignore = log::set_levels(options->verbose ? "warn,nbd=debug" : "warn");
  sigset_t ends;
  sigemptyset(&ends);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, number);
  ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);  // before any thread is started
  const auto served = run(*options, ends);
  return served ? 0 : fail(served.error());
}
