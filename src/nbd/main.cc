// SPDX-License-Identifier: Apache-2.0
// main() of spate-export, which `spate export` starts.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <deque>
#include <thread>

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

/// Sets an event when one of some descriptors is readable: signals, or the word that all loops are to end.
class EndWatch final : public nbd::ReadyHandler {
 public:
  EndWatch(job::Executor& executor, nbd::SocketSource& sockets) : asked_(executor), sockets_(sockets) {}
  ~EndWatch() override { leave(); }
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;

  /// `fd` outlives it.
  Result<void> watch(int fd) {
    SPATE_TRY(std::ignore, sockets_.add(fd, EPOLLIN, *this));
    watched_.push_back(fd);
    return {};
  }
  void on_ready(std::uint32_t /*events*/) override {
    asked_.set();
    leave();  // they stay readable
  }
  auto asked() { return asked_.wait(); }

 private:
  void leave() {
    for (const int fd : watched_) sockets_.remove(fd);
    watched_.clear();
  }
  job::Event asked_;
  nbd::SocketSource& sockets_;
  std::vector<int> watched_;
};

int fail(const Error& error) {
  std::fprintf(stderr, "spate export: %s\n", error.message().c_str());
  return 1;
}

/// What one loop works with.
struct World {
  const nbd::ExportOptions& options;
  job::Executor& executor;
  trove::Workers& workers;
  client::Client* client;  // null: no export needs one
  std::vector<int> ends;   // readable when it is to end
  bool first;              // tells the URLs
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
  if (world.options.quiet || !world.first) return;
  for (const nbd::SourceWish& wish : world.options.sources) {
    for (const std::string& url : server.urls(wish.name)) std::printf("%s\n", url.c_str());
  }
  std::fflush(stdout);
}

job::Task<Result<void>> begin(World& world, nbd::Server& server, std::vector<nbd::ListeningSocket> sockets) {
  SPATE_CO_TRY(std::ignore, co_await add_exports(world, server));
  for (auto& socket : sockets) {
    SPATE_CO_TRY(std::ignore, server.listen(std::move(socket)));
  }
  co_return Result<void>();
}

job::Task<Result<void>> serve(World& world, nbd::Server& server, std::vector<nbd::ListeningSocket> sockets, EndWatch& ends) {
  auto begun = co_await begin(world, server, std::move(sockets));
  if (begun) {
    print_urls(world, server);
    std::ignore = co_await ends.asked();
  }
  auto stopped = co_await server.stop(kGrace);  // also closes what was opened before something else failed
  co_return begun ? stopped : begun;
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

/// One loop, on an executor that is there already.
job::Task<Result<void>> serve_on(World& world, std::vector<nbd::ListeningSocket> listening) {
  nbd::SocketSource sockets(world.executor);
  EndWatch ends(world.executor, sockets);
  for (const int fd : world.ends) {
    SPATE_CO_TRY(std::ignore, ends.watch(fd));
  }
  nbd::ServerOptions options;
  options.send_file_from = world.options.send_file_from;
  SPATE_CO_TRY(const auto tls, open_tls(world.options, listening));
  options.tls_required = tls != nullptr && !world.options.insecure;
  nbd::Server server(world.executor, sockets, tls.get(), options);
  auto served = co_await serve(world, server, std::move(listening), ends);
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

/// For another loop: the same sockets.
Result<std::vector<nbd::ListeningSocket>> shared(const std::vector<nbd::ListeningSocket>& sockets) {
  std::vector<nbd::ListeningSocket> all;
  for (const nbd::ListeningSocket& socket : sockets) {
    nbd::ListeningSocket same;
    same.fd = UniqueFd(::fcntl(socket.fd.get(), F_DUPFD_CLOEXEC, 3));
    if (!same.fd) return errno_error(errno, "descriptor");
    same.url = socket.url;
    same.loopback = socket.loopback;
    all.push_back(std::move(same));
  }
  return all;
}

/// Loops of their own threads beside the first: each accepts at the same sockets and opens the files for itself.
class MoreLoops {
 public:
  MoreLoops(const nbd::ExportOptions& options, trove::Workers& workers, int end) : options_(options), workers_(workers), end_(end) {}
  MoreLoops(const MoreLoops&) = delete;
  MoreLoops& operator=(const MoreLoops&) = delete;
  ~MoreLoops() { std::ignore = finish(); }

  void add(std::vector<nbd::ListeningSocket> sockets) {
    outcomes_.emplace_back();
    threads_.emplace_back([this, &outcome = outcomes_.back(), mine = std::move(sockets)]() mutable {
      SystemClock clock;
      job::Executor executor(clock);
      World world{options_, executor, workers_, nullptr, {end_}, false};
      outcome = executor.run(serve_on(world, std::move(mine)));
      end_all();  // one that cannot serve ends the others
    });
  }
  /// The first failure.
  Result<void> finish() {
    end_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    for (const Result<void>& outcome : outcomes_) {
      if (!outcome) return outcome;
    }
    return {};
  }

 private:
  void end_all() const {
    const std::uint64_t one = 1;
    std::ignore = ::write(end_, &one, sizeof one);
  }
  const nbd::ExportOptions& options_;
  trove::Workers& workers_;
  const int end_;
  std::deque<Result<void>> outcomes_;
  std::vector<std::thread> threads_;
};

Result<void> run_local(const nbd::ExportOptions& options, trove::Workers& workers, int signals) {
  const UniqueFd end(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!end) return errno_error(errno, "eventfd");
  SPATE_TRY(auto sockets, open_sockets(options));
  MoreLoops more(options, workers, end.get());
  for (unsigned i = 1; i < options.threads; ++i) {
    SPATE_TRY(auto same, shared(sockets));
    more.add(std::move(same));
  }
  SystemClock clock;
  job::Executor executor(clock);
  World world{options, executor, workers, nullptr, {signals, end.get()}, true};
  auto served = executor.run(serve_on(world, std::move(sockets)));
  auto others = more.finish();
  return served ? others : served;
}

Result<void> run(const nbd::ExportOptions& options, const sigset_t& ends) {
  const UniqueFd signals(::signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) return errno_error(errno, "signalfd");
  trove::Workers workers("nbd", kWorkers);
  const bool remote = std::ranges::any_of(options.sources, [](const nbd::SourceWish& wish) { return is_remote(wish.source); });
  if (!remote) return run_local(options, workers, signals.get());
  if (options.threads > 1) return Error(Errc::kInvalidArgument, "--threads is for files of this machine; spate:/... has one");
  SPATE_TRY(auto process, open_client(options));
  SPATE_TRY(auto sockets, open_sockets(options));
  World world{options, process->executor(), workers, &process->client(), {signals.get()}, true};
  return process->run([&](client::Client& /*client*/) { return serve_on(world, std::move(sockets)); });
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
