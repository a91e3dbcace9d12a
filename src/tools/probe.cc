// SPDX-License-Identifier: Apache-2.0
#include "tools/probe.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/unique_fd.h"
#include "model/server_url.h"

namespace spate::tools {
namespace {

constexpr int kConnectMs = 50;
constexpr Duration kMapTimeout = std::chrono::seconds(1);
constexpr std::size_t kLargePayload = 8 * 1024;

bool connects(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return false;
  bool ok = false;
  for (const addrinfo* a = found; a != nullptr && !ok; a = a->ai_next) {
    const UniqueFd fd(::socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) continue;
    if (::connect(fd.get(), a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS) continue;
    pollfd wait{fd.get(), POLLOUT, 0};
    int error = 0;
    socklen_t size = sizeof error;
    ok = ::poll(&wait, 1, kConnectMs) == 1 && ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 &&
         error == 0;
  }
  ::freeaddrinfo(found);
  return ok;
}

job::Task<Result<PingResult>> ping_task(client::Client& client, ServerId server, PingOptions how) {
  const auto found = client.session().servers().channels().find(server);
  if (found == client.session().servers().channels().end())
    co_return Error::told(Errc::kNotFound, "no such server in spate.toml");
  rpc::Channel& channel = *found->second;
  job::Executor& executor = client.cluster().executor();
  rpc::CallOptions options;
  options.deadline = executor.now() + how.deadline;
  options.handshake = false;  // without a session, since the meta server may be the one that is down
  SPATE_CO_TRY(std::ignore, co_await channel.meet(options.deadline));
  PingResult result;
  for (std::uint64_t i = 0; i < how.count + 1; ++i) {
    const wire::PingRequest request;
    const MonoTime begin = executor.now();
    SPATE_CO_TRY(auto reply, co_await channel.call<wire::PingReply>(request, options));
    if (i > 0) result.round_trips.push_back(executor.now() - begin);  // the first one also connects
    result.reply = std::move(reply);
  }
  result.peer = channel.peer_info();
  if (!how.bandwidth) co_return result;
  wire::PingRequest large;
  large.payload.resize(kLargePayload);
  const MonoTime begin = executor.now();
  constexpr int kRounds = 64;
  for (int i = 0; i < kRounds; ++i) {
    SPATE_CO_TRY(std::ignore, co_await channel.call<wire::PingReply>(large, options));
  }
  const double seconds = std::chrono::duration<double>(executor.now() - begin).count();
  result.bytes_per_second = 2.0 * kRounds * kLargePayload / seconds;
  co_return result;
}

job::Task<void> ping_into(client::Client& client, ServerId server, PingOptions how, Result<PingResult>& out) {
  out = co_await ping_task(client, server, how);
}

job::Task<std::map<ServerId, Result<PingResult>>> ping_all_task(client::Client& client, std::vector<ServerId> servers,
                                                                PingOptions how) {
  std::map<ServerId, Result<PingResult>> results;
  job::Gate gate(client.cluster().executor());
  for (const ServerId server : servers) {
    auto& result = results.emplace(server, Errc::kUnknown).first->second;
    job::spawn(gate, ping_into(client, server, how, result));
  }
  co_await gate.close();
  co_return results;
}

}  // namespace

bool answers(const std::vector<std::string>& urls) {
  for (const std::string& url : urls) {
    if (!config::is_tcp_url(url)) continue;
    const std::size_t begin = url.find("://") + 3;
    const std::size_t colon = url.rfind(':');
    std::string host = url.substr(begin, colon - begin);
    if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
    if (connects(host, url.substr(colon + 1))) return true;
  }
  return false;
}

bool surely_down(const std::vector<std::string>& urls) {
  const auto is_tcp = [](const std::string& url) { return config::is_tcp_url(url); };
  const auto is_known = [&](const std::string& url) { return is_tcp(url) || is_shm_url(url); };
  return std::ranges::any_of(urls, is_tcp) && std::ranges::all_of(urls, is_known) && !answers(urls);
}

std::vector<config::ServerConfig> all_servers(assembly::ClientProcess& process) {
  std::ignore = process.run([](client::Client& client) {
    client::Limits limits = client.session().limits();
    limits.deadline = client.cluster().executor().now() + kMapTimeout;
    return client.session().learn_map(std::move(limits));
  });
  std::vector<config::ServerConfig> servers = process.config().servers;
  for (const ServerEntry& entry : process.client().session().servers().map().servers) {
    const auto known = std::ranges::find(servers, entry.id, &config::ServerConfig::id);
    if (known != servers.end()) {
      if (known->rack.empty()) known->rack = entry.rack;
      continue;
    }
    config::ServerConfig server;
    server.id = entry.id;
    server.urls = entry.urls;
    server.rack = entry.rack;
    static_cast<Roles&>(server.roles) = entry.roles;
    servers.push_back(std::move(server));
  }
  return servers;
}

Result<void> wait_for_meta(const std::string& config_file, Duration timeout) {
  assembly::ClientSettings settings;
  settings.config_file = config_file;
  settings.program = "spate up";
  settings.credential = assembly::own_credential();
  settings.deadline = timeout;
  settings.background_thread = false;
  SPATE_TRY(const auto process, assembly::ClientProcess::open(settings));
  return process->run([](client::Client& client) { return client.connect(); });
}

std::string part_of(const wire::PingReply& reply) {
  constexpr std::string_view kBegin = "meta (";
  for (const std::string& role : reply.roles) {
    if (role.starts_with(kBegin) && role.ends_with(')'))
      return role.substr(kBegin.size(), role.size() - kBegin.size() - 1);
  }
  return {};
}

Result<PingResult> ping(assembly::ClientProcess& process, ServerId server, PingOptions how) {
  return process.run([&](client::Client& client) { return ping_task(client, server, how); });
}

std::map<ServerId, Result<PingResult>> ping_all(assembly::ClientProcess& process, const std::vector<ServerId>& servers,
                                                PingOptions how) {
  return process.run([&](client::Client& client) { return ping_all_task(client, servers, how); });
}

}  // namespace spate::tools
