// SPDX-License-Identifier: Apache-2.0
#include "assembly/proofs.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <memory>

#include "assembly/own_host.h"
#include "config/url.h"

namespace spate::assembly {
namespace {

rpc::Proof proof_of(config::Auth auth) {
  switch (auth) {
    case config::Auth::kKey: return rpc::Proof::kKey;
    case config::Auth::kNone: return rpc::Proof::kNothing;
    case config::Auth::kTls: return rpc::Proof::kCertificate;
    case config::Auth::kMunge: return rpc::Proof::kMunge;
  }
  return rpc::Proof::kKey;
}

/// A URL of tcp with each numeric address that its host means, as the network names them.
std::vector<std::string> numeric_urls(const std::string& url) {
  if (!config::is_tcp_url(url)) return {};
  const config::UrlParts parts = config::split_url(url);
  const std::string host(config::host_of(parts.rest));
  const std::string port(parts.rest.substr(parts.rest.rfind(':')));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  std::vector<std::string> all;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    const bool v6 = one->ai_family == AF_INET6;
    const void* const ip =
        v6 ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(one->ai_addr)->sin6_addr)
           : &reinterpret_cast<const sockaddr_in*>(one->ai_addr)->sin_addr;
    if (::inet_ntop(one->ai_family, ip, text.data(), text.size()) == nullptr) continue;
    const std::string shown = v6 ? "[" + std::string(text.data()) + "]" : std::string(text.data());
    all.push_back(std::string(parts.scheme) + "://" + shown + port);
  }
  return all;
}

using Urls = std::set<std::string, std::less<>>;

void avoid_open_urls(const config::FileSystemConfig& config, const config::ServerConfig& server, Urls& all) {
  std::vector<std::string> open;
  std::vector<std::string> of_networks;
  for (std::size_t i = 0; i < server.urls.size(); ++i) {
    const std::string& url = server.urls[i];
    if (!config::is_local_url(url)) {
      of_networks.push_back(url);
    } else if (config::is_tcp_url(url) && auth_at(config, server, i) == config::Auth::kNone) {
      open.push_back(url);
    }
  }
  if (open.empty() || of_networks.empty()) return;
  const bool here = std::ranges::any_of(of_networks, [](const std::string& url) { return is_own_url(url) == true; });
  if (!here) all.insert(open.begin(), open.end());
}

bool is_tls_url(const std::string& url) { return url.starts_with("tcp+tls://"); }

/// Whether this process is not meant to have the key of the certificate.
bool lacks_certificate(const config::TlsConfig& tls) {
  return !tls.key.empty() && ::access(tls.key.c_str(), R_OK) != 0 && (errno == EACCES || errno == ENOENT);
}

/// If the server has no other address, the network says what is wrong.
void avoid_tls(const config::ServerConfig& server, Urls& all) {
  if (!std::ranges::all_of(server.urls, is_tls_url))
    std::ranges::copy_if(server.urls, std::inserter(all, all.end()), is_tls_url);
}

}  // namespace

rpc::AskedProofs asked_proofs(const config::FileSystemConfig& config) {
  rpc::AskedProofs asked;
  asked.usual = proof_of(config.fs.auth);
  asked.munge_for_key = config.auth.munge;
  for (const config::ServerConfig& server : config.servers) {
    if (server.auth.empty()) continue;
    for (std::size_t i = 0; i < server.urls.size(); ++i)
      asked.by_url.emplace(server.urls[i], proof_of(auth_at(config, server, i)));
  }
  return asked;
}

std::set<std::string, std::less<>> urls_to_avoid(const config::FileSystemConfig& config) {
  std::set<std::string, std::less<>> all;
  const bool shows_none = lacks_certificate(config.tls);
  for (const config::ServerConfig& server : config.servers) {
    avoid_open_urls(config, server, all);
    if (shows_none && !server.auth.empty()) avoid_tls(server, all);
  }
  return all;
}

Result<rpc::Entrances> entrances_of(const config::FileSystemConfig& config, const config::ServerConfig& self) {
  if (self.auth.empty() && config.fs.auth != config::Auth::kNone) return rpc::Entrances(proof_of(config.fs.auth));
  std::vector<rpc::Entrance> all;
  for (std::size_t i = 0; i < self.urls.size(); ++i) {
    rpc::Entrance one{self.urls[i], numeric_urls(self.urls[i]), proof_of(auth_at(config, self, i))};
    const auto far =
        std::ranges::find_if_not(one.numeric, [](const std::string& url) { return config::is_local_url(url); });
    if (one.asked == rpc::Proof::kNothing && far != one.numeric.end()) {
      return Error::told(Errc::kNotPermitted, "server " + std::to_string(self.id.value) + ": auth is \"none\" at " +
                                                  one.url + ", which means " + *far +
                                                  " here, where other machines reach it: use auth = \"key\"");
    }
    all.push_back(std::move(one));
  }
  return rpc::Entrances(std::move(all));
}

}  // namespace spate::assembly
