// SPDX-License-Identifier: Apache-2.0
#include "nbd/service.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <deque>
#include <thread>

#include "assembly/client_process.h"
#include "assembly/locate.h"
#include "log/fields.h"
#include "log/log.h"
#include "nbd/local_device.h"
#include "nbd/server.h"
#include "nbd/spate_device.h"

namespace spate::nbd {
namespace {

constexpr std::string_view kRemote = "spate:";

bool is_remote(std::string_view source) { return source.starts_with(kRemote); }

constexpr unsigned kWorkers = 16;  // so many requests can wait for disks at once
constexpr Duration kGrace = std::chrono::seconds(5);
// Pauses between attempts to open a source: the first one, and the longest.
constexpr Duration kFirstPause = std::chrono::milliseconds(500);
constexpr Duration kLongestPause = std::chrono::seconds(15);

/// Sets an event when one of several descriptors is readable: signals, or the order that all loops end.
class EndWatch final : public ReadyHandler {
 public:
  EndWatch(job::Executor& executor, SocketSource& sockets) : asked_(executor), sockets_(sockets) {}
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
    leave();  // the descriptors stay readable
  }
  auto asked() { return asked_.wait(); }

 private:
  void leave() {
    for (const int fd : watched_) sockets_.remove(fd);
    watched_.clear();
  }
  job::Event asked_;
  SocketSource& sockets_;
  std::vector<int> watched_;
};

/// The parameters of one loop.
struct World {
  const ExportOptions& options;
  job::Executor& executor;
  Workers& workers;
  client::Client* client;  // null: no export needs one
  std::vector<int> ends;   // readable when the loop is to end
  const Serving* serving;  // null: another loop reports
};

Result<std::vector<ListeningSocket>> open_sockets(const ExportOptions& options) {
  SPATE_TRY(auto sockets, activated_sockets());
  if (!sockets.empty()) return sockets;
  if (!options.unix_path.empty()) {
    SPATE_TRY(auto socket, listen_unix(options.unix_path));
    sockets.push_back(std::move(socket));
    if (options.addresses.empty() && !options.port_given) return sockets;
  }
  std::vector<std::string> addresses = options.addresses;
  if (addresses.empty()) addresses.emplace_back("127.0.0.1");
  for (const std::string& address : addresses) {
    SPATE_TRY(auto some, listen_tcp(address, options.port));
    for (auto& one : some) sockets.push_back(std::move(one));
  }
  return sockets;
}

job::Task<Result<std::unique_ptr<Device>>> open_device(World& world, const SourceParams& params) {
  std::unique_ptr<Device> device;
  if (!is_remote(params.source)) {
    SPATE_CO_TRY(device, LocalDevice::open(params.source, params.read_only, world.executor, world.workers));
    co_return device;
  }
  std::string path = params.source.substr(kRemote.size());
  SPATE_CO_TRY(device, co_await SpateDevice::open(*world.client, std::move(path), params.read_only));
  co_return device;
}

job::Task<Result<void>> add_export(World& world, Server& server, const SourceParams& params) {
  Export exported;
  exported.name = params.name;
  SPATE_CO_TRY(exported.access, AccessList::parse(params.allow));
  SPATE_CO_TRY(exported.device, co_await open_device(world, params));
  server.add(std::move(exported));
  co_return Result<void>();
}

/// Retries until it succeeds or `stop` fires.
job::Task<void> add_later(World& world, Server& server, const SourceParams& params, job::StopToken stop) {
  for (Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    const auto slept = co_await world.executor.sleep(pause, stop);
    if (!slept) co_return;
    const auto added = co_await add_export(world, server, params);
    if (added) {
      SPATE_LOG("nbd", info, "export is available now export={}", log::Quoted{params.name});
      co_return;
    }
    SPATE_LOG("nbd", warn, "export is not available, will try again export={} error={}", log::Quoted{params.name},
              added.error());
  }
}

/// The sources that could not be opened yet.
struct Later {
  explicit Later(job::Executor& executor) : gate(executor) {}
  job::StopSource stop;
  job::Gate gate;
};

job::Task<Result<void>> add_exports(World& world, Server& server, Later& later) {
  for (const SourceParams& params : world.options.sources) {
    auto added = co_await add_export(world, server, params);
    if (added) continue;
    if (!world.options.keep_trying) co_return added;
    SPATE_LOG("nbd", info, "export is not available yet, will try again export={} error={}", log::Quoted{params.name},
              added.error());
    job::spawn(later.gate, add_later(world, server, params, later.stop));
  }
  co_return Result<void>();
}

void tell(const World& world, const Server& server) {
  if (world.serving == nullptr) return;
  std::vector<std::string> urls;
  for (const SourceParams& params : world.options.sources) {
    for (std::string& url : server.urls(params.name)) urls.push_back(std::move(url));
  }
  (*world.serving)(urls);
}

job::Task<Result<void>> serve(World& world, Server& server, std::vector<ListeningSocket> sockets, EndWatch& ends) {
  Later later(world.executor);
  auto begun = co_await add_exports(world, server, later);
  for (auto& socket : sockets) {
    if (begun) begun = server.listen(std::move(socket));
  }
  if (begun) {
    tell(world, server);
    std::ignore = co_await ends.asked();
  }
  later.stop.request_stop();
  co_await later.gate.close();
  auto stopped = co_await server.stop(kGrace);  // also closes devices that were opened before another one failed
  co_return begun ? stopped : begun;
}

bool shows_certificates(const ExportOptions& options) {
  return !options.tls_folder.empty() && ::access((options.tls_folder + "/ca-cert.pem").c_str(), F_OK) == 0;
}

/// Keys mean that not everybody may have the data. A server certificate beside them admits everybody who uses no key,
/// unless clients must show a certificate of their own.
Result<void> check_anonymous(const ExportOptions& options, const SourceParams& params, const AccessList& list) {
  const bool anybody = !options.tls_folder.empty() && !shows_certificates(options);
  if (!anybody || options.tls_keys.empty() || options.insecure) return {};
  if (list.names(kKey) || list.names(kCertificate)) return {};
  return Error(Errc::kInvalidArgument,
               options.tls_folder + " has no ca-cert.pem: clients that use no key would be let in to \"" + params.name +
                   "\" by the server's certificate alone; add ca-cert.pem, or name the keys that may (allow), or use "
                   "--tls or --tls-psk only, or --insecure if everybody may have the data");
}

/// Refuses a list that no client can satisfy, and one that admits everybody by mistake.
Result<void> check_lists(const ExportOptions& options) {
  for (const SourceParams& params : options.sources) {
    SPATE_TRY(const AccessList list, AccessList::parse(params.allow));
    if (list.names(kKey) && options.tls_keys.empty()) {
      return Error(Errc::kInvalidArgument,
                   "\"" + params.allow + "\" names keys, and there is no file of keys (tls-psk)");
    }
    SPATE_TRY(std::ignore, check_anonymous(options, params, list));
    if (list.names(kCertificate) && !shows_certificates(options)) {
      return Error(
          Errc::kInvalidArgument,
          "\"" + params.allow + "\" names certificates, and no TLS folder with ca-cert.pem has clients show theirs");
    }
  }
  return {};
}

/// Null without TLS. That is allowed on this machine only, unless the user says otherwise.
Result<std::unique_ptr<TlsContext>> open_tls(const ExportOptions& options,
                                             const std::vector<ListeningSocket>& sockets) {
  if (!options.tls_folder.empty() || !options.tls_keys.empty()) return make_tls({options.tls_folder, options.tls_keys});
  for (const ListeningSocket& socket : sockets) {
    if (socket.loopback || options.insecure) continue;
    return Error(Errc::kPermissionDenied,
                 socket.url +
                     " can be reached from other machines: use --tls DIR or --tls-psk FILE, or "
                     "--insecure if everybody who reaches it may have the data");
  }
  return std::unique_ptr<TlsContext>();
}

/// Runs one loop, on an existing executor.
job::Task<Result<void>> serve_on(World& world, std::vector<ListeningSocket> listening) {
  SocketSource sockets(world.executor);
  EndWatch ends(world.executor, sockets);
  for (const int fd : world.ends) {
    SPATE_CO_TRY(std::ignore, ends.watch(fd));
  }
  ServerOptions options;
  options.send_file_from = world.options.send_file_from;
  SPATE_CO_TRY(const auto tls, open_tls(world.options, listening));
  options.tls_required = tls != nullptr && !world.options.insecure;
  options.has_default = !world.options.keep_trying;  // with retries, the first export would depend on time
  Server server(world.executor, sockets, tls.get(), options);
  auto served = co_await serve(world, server, std::move(listening), ends);
  co_return served;
}

Result<std::unique_ptr<assembly::ClientProcess>> open_client(const ExportOptions& options) {
  assembly::ClientSettings settings;
  SPATE_TRY(settings.config_file, assembly::locate_config(options.file_system));
  SPATE_TRY(settings.overrides, settings_of(options));
  settings.program = "export";
  settings.credential = assembly::own_credential();
  settings.background_thread = false;  // this thread is always inside a call
  settings.on_wait = rpc::log_wait;
  return assembly::ClientProcess::open(settings);
}

/// The same sockets, for another loop.
Result<std::vector<ListeningSocket>> shared(const std::vector<ListeningSocket>& sockets) {
  std::vector<ListeningSocket> all;
  for (const ListeningSocket& socket : sockets) {
    ListeningSocket same;
    same.fd = UniqueFd(::fcntl(socket.fd.get(), F_DUPFD_CLOEXEC, 3));
    if (!same.fd) return errno_error(errno, "descriptor");
    same.url = socket.url;
    same.loopback = socket.loopback;
    all.push_back(std::move(same));
  }
  return all;
}

/// Loops on threads of their own beside the first one. Each accepts on the same sockets and opens the files itself.
class MoreLoops {
 public:
  MoreLoops(const ExportOptions& options, Workers& workers, int end)
      : options_(options), workers_(workers), end_(end) {}
  MoreLoops(const MoreLoops&) = delete;
  MoreLoops& operator=(const MoreLoops&) = delete;
  ~MoreLoops() { std::ignore = finish(); }

  void add(std::vector<ListeningSocket> sockets) {
    outcomes_.emplace_back();
    threads_.emplace_back([this, &outcome = outcomes_.back(), mine = std::move(sockets)]() mutable {
      SystemClock clock;
      job::Executor executor(clock);
      World world{options_, executor, workers_, nullptr, {end_}, nullptr};
      outcome = executor.run(serve_on(world, std::move(mine)));
      end_all();  // a loop that cannot serve ends the others
    });
  }
  /// Waits for all loops; yields the first failure.
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
  const ExportOptions& options_;
  Workers& workers_;
  const int end_;
  std::deque<Result<void>> outcomes_;
  std::vector<std::thread> threads_;
};

Result<void> run_local(const ExportOptions& options, Workers& workers, int ends, const Serving& serving) {
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
  World world{options, executor, workers, nullptr, {ends, end.get()}, &serving};
  auto served = executor.run(serve_on(world, std::move(sockets)));
  auto others = more.finish();
  return served ? others : served;
}

}  // namespace

Result<void> serve_exports(const ExportOptions& options, int ends, const Serving& serving) {
  SPATE_TRY(std::ignore, check_lists(options));
  Workers workers("nbd", kWorkers);
  const bool remote =
      std::ranges::any_of(options.sources, [](const SourceParams& params) { return is_remote(params.source); });
  if (!remote) return run_local(options, workers, ends, serving);
  if (options.threads > 1)
    return Error(Errc::kInvalidArgument, "--threads is for files of this machine; spate:/... has one");
  SPATE_TRY(auto process, open_client(options));
  SPATE_TRY(auto sockets, open_sockets(options));
  World world{options, process->executor(), workers, &process->client(), {ends}, &serving};
  return process->run([&](client::Client& /*client*/) { return serve_on(world, std::move(sockets)); });
}

}  // namespace spate::nbd
