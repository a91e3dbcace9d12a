// SPDX-License-Identifier: Apache-2.0
// Checks which proofs the addresses of servers ask of clients, and whether each address can.
#include <algorithm>
#include <map>

#include "config/check.h"
#include "config/url.h"

namespace spate::config {
namespace {

/// One address of a server, and what it asks for.
struct Address {
  std::size_t index;  // of the server
  const ServerConfig& server;
  const std::string& url;
  Auth auth;

  std::string_view scheme() const { return split_url(url).scheme; }
  std::string shown() const { return url.substr(0, 80); }
  /// The mistake, at servers.auth if that chose what the address asks for.
  Problem problem(const std::string& text) const {
    if (server.auth.empty()) return {server_key(index, "urls"), text};
    return {server_key(index, "auth"), "servers.auth of " + server_name(server) + ": " + text};
  }
};

std::vector<Address> addresses_of(const FileSystemConfig& config) {
  std::vector<Address> all;
  for (std::size_t i = 0; i < config.servers.size(); ++i) {
    const ServerConfig& server = config.servers[i];
    for (std::size_t at = 0; at < server.urls.size(); ++at)
      all.push_back({i, server, server.urls[at], auth_at(config, server, at)});
  }
  return all;
}

void check_counts(const FileSystemConfig& config, std::vector<Problem>& out) {
  for (std::size_t i = 0; i < config.servers.size(); ++i) {
    const ServerConfig& server = config.servers[i];
    if (server.auth.size() < 2 || server.auth.size() == server.urls.size()) continue;
    out.push_back({server_key(i, "auth"), "servers.auth of " + server_name(server) + " has " +
                                              std::to_string(server.auth.size()) + " words for " +
                                              std::to_string(server.urls.size()) +
                                              (server.urls.size() == 1 ? " address" : " addresses") +
                                              ": write one word for each address, or one for all"});
  }
}

/// `auth`: where it is asked for; fs.auth, or the servers.auth of the first server that does so.
Problem needs_files(const FileSystemConfig& config, Auth auth, const std::string& files) {
  const std::string text = "auth = \"" + std::string(auth_word(auth)) + "\" needs " + files;
  for (const Address& one : addresses_of(config)) {
    if (one.auth != auth) continue;
    return one.server.auth.empty() ? Problem{"fs.auth", text} : one.problem(text);
  }
  return {"fs.auth", text};
}

void check_key_files(const FileSystemConfig& config, std::vector<Problem>& out) {
  const FsConfig& fs = config.fs;
  for (const Auth auth : {Auth::kTls, Auth::kMunge}) {
    if (asks_for(config, auth) && fs.server_key_file.empty())
      out.push_back(needs_files(config, auth, "fs.server_key_file"));
  }
  if (!asks_for(config, Auth::kKey)) return;
  if (fs.client_key_file.empty() || fs.server_key_file.empty()) {
    out.push_back(needs_files(config, Auth::kKey, "fs.client_key_file and fs.server_key_file"));
  } else if (fs.client_key_file == fs.server_key_file) {
    out.push_back({"fs.server_key_file",
                   "client_key_file and server_key_file must be two files: clients must not hold the "
                   "servers' key"});
  }
}

/// Without keys, anybody who reaches a server may act for any user, and so may anybody who can alter messages.
void check_open(const Address& one, std::vector<Problem>& out) {
  if (one.auth != Auth::kNone || is_local_url(one.url)) return;
  out.push_back(
      one.problem("auth = \"none\" admits every client that reaches a server, so it is for addresses of the own "
                  "machine only (127.0.0.1, [::1], localhost, shm): other machines reach " +
                  one.shown() + "; use auth = \"key\""));
}

/// Clients are admitted by their certificates. An address must therefore use TLS, or be shm: there the kernel vouches.
void check_certificates_only(const Address& one, std::vector<Problem>& out) {
  if (one.auth != Auth::kTls || one.scheme() == "tcp+tls" || one.scheme() == "shm") return;
  out.push_back(
      one.problem("auth = \"tls\" lets clients in by their certificates, so it is for tcp+tls:// "
                  "and shm:// addresses only, not for " +
                  one.shown()));
}

/// The server sees at which of its tcp addresses a connection has arrived, but not at which of several others.
void check_schemes(const FileSystemConfig& config, std::vector<Problem>& out) {
  std::map<std::pair<std::size_t, std::string_view>, Auth> asked;
  for (const Address& one : addresses_of(config)) {
    if (is_tcp_url(one.url)) continue;
    const auto [at, fresh] = asked.emplace(std::pair(one.index, one.scheme()), one.auth);
    if (fresh || at->second == one.auth) continue;
    out.push_back(one.problem("all " + std::string(one.scheme()) + ":// addresses of a server ask for the same, and " +
                              one.shown() + " asks for \"" + std::string(auth_word(one.auth)) +
                              "\" where another one asks for \"" + std::string(auth_word(at->second)) + "\""));
  }
}

/// Certificates or, without them, keys that a client must have.
void check_tls_files(const FileSystemConfig& config, std::vector<Problem>& out) {
  const TlsConfig& tls = config.tls;
  const bool all = !tls.ca.empty() && !tls.certificate.empty() && !tls.key.empty();
  const bool none = tls.ca.empty() && tls.certificate.empty() && tls.key.empty();
  if (!all && !none) out.push_back({"tls.certificate", "tls.ca, tls.certificate and tls.key are set together"});
  if (none && !tls.revoked.empty())
    out.push_back({"tls.revoked", "tls.revoked is for certificates (tls.ca, tls.certificate, tls.key)"});
  if (!none) return;
  for (const Address& one : addresses_of(config)) {
    if (one.scheme() != "tcp+tls" || one.auth == Auth::kKey) continue;
    out.push_back(one.problem(
        "tcp+tls:// needs certificates (tls.ca, tls.certificate, tls.key), or auth = \"key\", at " + one.shown()));
  }
}

void check_clear(const FileSystemConfig& config, std::vector<Problem>& out) {
  if (config.tls.plain_too) return;
  for (std::size_t i = 0; i < config.servers.size(); ++i) {
    const auto& urls = config.servers[i].urls;
    const auto encrypted = [](const std::string& url) { return split_url(url).scheme == "tcp+tls"; };
    if (std::none_of(urls.begin(), urls.end(), encrypted)) continue;
    const auto plain = std::find_if(urls.begin(), urls.end(),
                                    [&](const std::string& url) { return !encrypted(url) && !is_local_url(url); });
    if (plain == urls.end()) continue;
    out.push_back({server_key(i, "urls"),
                   "a client would send in clear to " + plain->substr(0, 80) +
                       " when tcp+tls:// does not work: remove that address, or set tls.plain_too = \"yes\""});
  }
}

void check_munge(const FileSystemConfig& config, std::vector<Problem>& out) {
  if (config.auth.munge && !asks_for(config, Auth::kKey))
    out.push_back({"auth.munge", "auth.munge needs fs.auth = \"key\""});
  if (!config.auth.allow_v1) return;
  const std::string why = " and auth.allow_v1 exclude each other: version 1 knows no munge";
  if (config.auth.munge) out.push_back({"auth.munge", "auth.munge" + why});
  if (asks_for(config, Auth::kMunge)) out.push_back({"auth.allow_v1", "auth = \"munge\"" + why});
}

void check_protection(const FileSystemConfig& config, std::vector<Problem>& out) {
  if (config.auth.protect != Protect::kData) return;
  for (const Address& one : addresses_of(config)) {
    if (one.auth == Auth::kKey || one.auth == Auth::kMunge) continue;
    const std::string text = "auth.protect = \"data\" needs fs.auth = \"key\"";
    out.push_back(one.server.auth.empty()
                      ? Problem{"auth.protect", text}
                      : one.problem("auth.protect = \"data\" needs \"key\" or \"munge\" at " + one.shown()));
    break;
  }
  if (config.auth.allow_v1) {
    out.push_back({"auth.protect",
                   "auth.protect = \"data\" and auth.allow_v1 exclude each other: version 1 protects "
                   "nothing"});
  }
}

}  // namespace

void check_auth(const FileSystemConfig& config, std::vector<Problem>& out) {
  check_counts(config, out);
  check_key_files(config, out);
  for (const Address& one : addresses_of(config)) {
    check_open(one, out);
    check_certificates_only(one, out);
  }
  check_schemes(config, out);
  check_tls_files(config, out);
  check_clear(config, out);
  check_protection(config, out);
  check_munge(config, out);
}

}  // namespace spate::config
