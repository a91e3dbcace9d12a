// SPDX-License-Identifier: Apache-2.0
#include "config/check.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>

namespace spate::config {
namespace {

std::string server_key(std::size_t index, std::string_view name) {
  return "servers[" + std::to_string(index) + "]." + std::string(name);
}

std::string server_name(const ServerConfig& server) { return "server " + std::to_string(server.id.value); }

bool all_of(std::string_view text, bool (*accept)(char)) {
  return !text.empty() && std::all_of(text.begin(), text.end(), accept);
}
bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}
bool is_host_char(char c) { return is_name_char(c) || c == ':' || c == '%'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct UrlParts {
  std::string_view scheme;
  std::string_view rest;
};

UrlParts split_url(std::string_view url) {
  const std::size_t at = url.find("://");
  if (at == std::string_view::npos) return {};
  return {url.substr(0, at), url.substr(at + 3)};
}

constexpr std::size_t kMaxShmName = 96;
/// The most bytes that a member of a group sends to another member in one request.
constexpr std::uint64_t kGroupMessageBytes = 128ULL << 10U;

/// Whether it is a policy that bmi/shm/policy.h can parse.
bool is_user_policy(std::string_view text) {
  constexpr int kMostUsers = 256;
  if (text == "same" || text == "any") return true;
  for (int users = 1; users <= kMostUsers; ++users) {
    const std::string_view one = text.substr(0, text.find(','));
    std::uint32_t uid = 0;
    const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), uid);
    if (error != std::errc() || end != one.data() + one.size()) return false;
    if (one.size() == text.size()) return true;
    text.remove_prefix(one.size() + 1);
  }
  return false;
}

bool has_host(std::string_view scheme) { return scheme == "tcp" || scheme == "tcp+tls" || scheme.starts_with("ofi+"); }

/// The host of "host:port" or "[v6]:port"; nothing if the text is malformed.
std::string_view host_of(std::string_view rest) {
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return {};
  const std::string_view port = rest.substr(colon + 1);
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (!all_of(port, is_digit) || error != std::errc() || number == 0 || number > 65535) return {};
  std::string_view host = rest.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    return all_of(host, is_host_char) ? host : std::string_view();
  }
  return all_of(host, is_name_char) ? host : std::string_view();
}

void check_fs(const FsConfig& fs, std::vector<Problem>& out) {
  if (!all_of(fs.name, is_name_char)) out.push_back({"fs.name", "fs.name may hold letters, digits, '.', '_' and '-'"});
  if (fs.auth == Auth::kNone) return;
  if (fs.auth == Auth::kTls) {
    if (fs.server_key_file.empty()) out.push_back({"fs.auth", "auth = \"tls\" needs fs.server_key_file"});
    return;
  }
  if (fs.client_key_file.empty() || fs.server_key_file.empty()) {
    out.push_back({"fs.auth", "auth = \"key\" needs fs.client_key_file and fs.server_key_file"});
  } else if (fs.client_key_file == fs.server_key_file) {
    out.push_back({"fs.server_key_file",
                   "client_key_file and server_key_file must be two files: clients must not hold the "
                   "servers' key"});
  }
}

void check_server(const ServerConfig& server, std::size_t index, std::vector<Problem>& out) {
  for (const std::string& url : server.urls) {
    if (const auto good = check_url(url); !good) out.push_back({server_key(index, "urls"), good.error().context()});
  }
  if (server.roles.io && server.storage.empty()) {
    out.push_back({server_key(index, "roles"), server_name(server) + " has the io role and no storage folder"});
  }
  if (!server.roles.io && !server.storage.empty()) {
    out.push_back({server_key(index, "storage"), server_name(server) + " has storage folders and no io role"});
  }
  if (server.roles.meta && server.keyval.empty()) {
    out.push_back({server_key(index, "roles"), server_name(server) + " has the meta role and no keyval folder"});
  }
}

/// Whether the host name means the machine on which it is used.
bool is_loopback(std::string_view host) {
  const std::string text(host);
  in_addr v4{};
  in6_addr v6{};
  if (::inet_pton(AF_INET, text.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24U) == IN_LOOPBACKNET;
  return host == "localhost" || (::inet_pton(AF_INET6, text.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6));
}

/// Whether other machines cannot reach the URL.
bool is_local(const std::string& url) {
  const UrlParts parts = split_url(url);
  return !has_host(parts.scheme) || parts.scheme == "ofi+shm" || is_loopback(host_of(parts.rest));
}

/// Without keys, anybody who reaches a server may act for any user, and so may anybody who can alter messages.
void check_open_servers(const FileSystemConfig& config, std::vector<Problem>& out) {
  if (config.fs.auth != Auth::kNone) return;
  for (std::size_t i = 0; i < config.servers.size(); ++i) {
    for (const std::string& url : config.servers[i].urls) {
      if (is_local(url)) continue;
      out.push_back({server_key(i, "urls"),
                     "auth = \"none\" admits every client that reaches a server, so it is for addresses of the own "
                     "machine only (127.0.0.1, [::1], localhost, shm): other machines reach " +
                         url.substr(0, 80) + "; use auth = \"key\""});
    }
  }
}

/// Clients are admitted by their certificates. An address must therefore use TLS, or be shm: there the kernel vouches.
void check_certificates_only(const FileSystemConfig& config, std::vector<Problem>& out) {
  if (config.fs.auth != Auth::kTls) return;
  for (std::size_t i = 0; i < config.servers.size(); ++i) {
    for (const std::string& url : config.servers[i].urls) {
      const std::string_view scheme = split_url(url).scheme;
      if (scheme == "tcp+tls" || scheme == "shm") continue;
      out.push_back({server_key(i, "urls"),
                     "auth = \"tls\" lets clients in by their certificates, so it is for tcp+tls:// "
                     "and shm:// addresses only, not for " +
                         url.substr(0, 80)});
    }
  }
}

void check_tls(const FileSystemConfig& config, std::vector<Problem>& out) {
  const TlsConfig& tls = config.tls;
  const bool all = !tls.ca.empty() && !tls.certificate.empty() && !tls.key.empty();
  const bool none = tls.ca.empty() && tls.certificate.empty() && tls.key.empty();
  if (!all && !none) out.push_back({"tls.certificate", "tls.ca, tls.certificate and tls.key are set together"});
  if (none && !tls.revoked.empty())
    out.push_back({"tls.revoked", "tls.revoked is for certificates (tls.ca, tls.certificate, tls.key)"});
  for (std::size_t i = 0; i < config.servers.size(); ++i) {
    const auto& urls = config.servers[i].urls;
    const auto encrypted = [](const std::string& url) { return split_url(url).scheme == "tcp+tls"; };
    if (std::none_of(urls.begin(), urls.end(), encrypted)) continue;
    if (none && config.fs.auth != Auth::kKey) {
      out.push_back({server_key(i, "urls"),
                     "tcp+tls:// needs certificates (tls.ca, tls.certificate, tls.key), or auth = \"key\""});
    }
    const auto plain = std::find_if(urls.begin(), urls.end(),
                                    [&](const std::string& url) { return !encrypted(url) && !is_local(url); });
    if (plain == urls.end() || tls.plain_too) continue;
    out.push_back({server_key(i, "urls"),
                   "a client would send in clear to " + plain->substr(0, 80) +
                       " when tcp+tls:// does not work: remove that address, or set tls.plain_too = \"yes\""});
  }
}

void check_munge(const FileSystemConfig& config, std::vector<Problem>& out) {
  if (!config.auth.munge) return;
  if (config.fs.auth != Auth::kKey) out.push_back({"auth.munge", "auth.munge needs fs.auth = \"key\""});
  if (config.auth.allow_v1)
    out.push_back({"auth.munge", "auth.munge and auth.allow_v1 exclude each other: version 1 knows no munge"});
}

void check_protection(const FileSystemConfig& config, std::vector<Problem>& out) {
  if (config.auth.protect != Protect::kData) return;
  if (config.fs.auth != Auth::kKey) out.push_back({"auth.protect", "auth.protect = \"data\" needs fs.auth = \"key\""});
  if (config.auth.allow_v1) {
    out.push_back({"auth.protect",
                   "auth.protect = \"data\" and auth.allow_v1 exclude each other: version 1 protects "
                   "nothing"});
  }
}

/// The URL with one name for all names of the own machine.
std::string canonical_url(const std::string& url) {
  const UrlParts parts = split_url(url);
  const std::string_view host = has_host(parts.scheme) ? host_of(parts.rest) : std::string_view();
  if (!is_loopback(host)) return url;
  return std::string(parts.scheme) + "://localhost" + std::string(parts.rest.substr(parts.rest.rfind(':')));
}

/// The hosts in a server's URLs. "" stands for the one machine of servers that have only local URLs.
std::set<std::string> hosts_of(const ServerConfig& server) {
  std::set<std::string> out;
  for (const std::string& url : server.urls) {
    const UrlParts parts = split_url(url);
    const std::string_view host = has_host(parts.scheme) ? host_of(parts.rest) : std::string_view();
    if (!host.empty() && !is_loopback(host)) out.emplace(host);
  }
  if (out.empty()) out.emplace();
  return out;
}

/// Finds servers that share a folder. Two machines may use the same folder name; on one machine, two servers would
/// write to each other's files.
void check_folders(const FileSystemConfig& config, std::vector<Problem>& out) {
  std::map<std::pair<std::string, std::string>, std::string> seen;  // (host, folder) -> server
  for (std::size_t i = 0; i < config.servers.size(); ++i) {
    const ServerConfig& server = config.servers[i];
    std::vector<std::pair<std::string, std::string>> folders;  // (folder, key)
    for (const std::string& s : server.storage) folders.emplace_back(s, "storage");
    if (!server.keyval.empty()) folders.emplace_back(server.keyval, "keyval");
    for (const auto& [folder, key] : folders) {
      std::string path = std::filesystem::path(folder).lexically_normal().string();
      if (path.size() > 1 && path.back() == '/') path.pop_back();
      std::string other;
      for (const std::string& host : hosts_of(server)) {
        const auto [at, fresh] = seen.emplace(std::pair(host, path), server_name(server));
        if (!fresh && other.empty()) other = at->second;
      }
      if (!other.empty())
        out.push_back({server_key(i, key), "folder " + path + " is used twice, by " + other + " too"});
    }
  }
}

/// Several meta servers hold the same name space, and a coordinator says which of them leads.
void check_group(const FileSystemConfig& config, std::size_t metas, std::vector<Problem>& out) {
  const std::vector<std::string>& urls = config.meta.coordinator;
  for (const std::string& url : urls) {
    const UrlParts parts = split_url(url);
    if ((parts.scheme != "http" && parts.scheme != "https") || host_of(parts.rest).empty()) {
      out.push_back({"meta.coordinator", "\"" + url.substr(0, 80) +
                                             "\" is no address of etcd: write https://HOST:PORT or http://HOST:PORT"});
    } else if ((parts.scheme == "https") == config.meta.coordinator_tls.empty()) {
      out.push_back({"meta.coordinator_tls", parts.scheme == "https"
                                                 ? "https:// in meta.coordinator needs the folder of its certificates"
                                                 : "with certificates, meta.coordinator names https:// addresses"});
    }
  }
  if (metas < 2) {
    if (!urls.empty()) {
      out.push_back({"meta.coordinator",
                     "meta.coordinator is for two or more servers with the meta role: one needs no coordinator"});
    }
    return;
  }
  if (urls.empty()) {
    out.push_back({"meta.coordinator", std::to_string(metas) +
                                           " servers have the meta role: meta.coordinator must name the etcd cluster "
                                           "that says which of them leads"});
  }
  if (metas > kMostMetaServers) {
    out.push_back({"meta.coordinator", "at most " + std::to_string(kMostMetaServers) + " servers have the meta role"});
  }
  if (config.network.max_unexpected < kGroupMessageBytes) {
    out.push_back({"network.max_unexpected", "several meta servers need network.max_unexpected = \"128KiB\" or more"});
  }
  for (std::size_t i = 0; i < config.servers.size(); ++i) {
    const ServerRoles& roles = config.servers[i].roles;
    if (!roles.meta || (!roles.io && !roles.block)) continue;
    out.push_back(
        {server_key(i, "roles"), server_name(config.servers[i]) +
                                     " is one of several meta servers, and these have no other role: give the "
                                     "others to a server of its own"});
  }
}

void check_cluster(const FileSystemConfig& config, std::vector<Problem>& out) {
  std::set<std::uint32_t> ids;
  std::map<std::string, std::uint32_t> urls;
  std::size_t metas = 0, ios = 0;
  for (std::size_t i = 0; i < config.servers.size(); ++i) {
    const ServerConfig& server = config.servers[i];
    if (!ids.insert(server.id.value).second)
      out.push_back({server_key(i, "id"), "two servers have the id " + std::to_string(server.id.value)});
    for (const std::string& url : server.urls) {
      const auto [at, fresh] = urls.emplace(canonical_url(url), server.id.value);
      if (!fresh)
        out.push_back({server_key(i, "urls"), url + " is also an address of server " + std::to_string(at->second)});
    }
    metas += server.roles.meta ? 1U : 0U;
    ios += server.roles.io ? 1U : 0U;
  }
  if (!ids.empty() && config.metrics.port + *ids.rbegin() > 65536)
    out.push_back({"metrics.port", "server " + std::to_string(*ids.rbegin()) + " would have a port beyond 65535"});
  check_group(config, metas, out);
  if (metas == 0) out.push_back({"", "no server has the meta role: give one [[servers]] roles = [\"meta\"]"});
  // One meta server alone: a machine that joined. It learns of the io servers from the meta server.
  if (ios == 0 && config.servers.size() > 1)
    out.push_back({"", "no server has the io role: give one or more [[servers]] roles = [\"io\"]"});
  if (config.servers.size() > kMaxServers) out.push_back({"", "more than " + std::to_string(kMaxServers) + " servers"});
}

void check_export(const FileSystemConfig& config, std::size_t index, std::vector<Problem>& out) {
  const ExportConfig& one = config.exports[index];
  const std::string key = "exports[" + std::to_string(index) + "].";
  if (!one.source.starts_with('/') && !one.source.starts_with("spate:/")) {
    out.push_back({key + "source", "\"" + one.source.substr(0, 80) + "\" is neither an absolute path nor spate:/PATH"});
  }
  if (one.server.value == 0) return;
  const ServerConfig* const server = config.find_server(one.server);
  if (server == nullptr || !server->roles.block) {
    out.push_back({key + "server", "there is no server " + std::to_string(one.server.value) + " with the role block"});
  }
}

void check_exports(const FileSystemConfig& config, std::vector<Problem>& out) {
  constexpr std::size_t kMaxExports = 1024;
  if (config.exports.size() > kMaxExports) {
    out.push_back({"", "more than " + std::to_string(kMaxExports) + " exports"});
    return;
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < config.exports.size(); ++i) {
    if (!names.insert(config.exports[i].name).second) {
      out.push_back(
          {"exports[" + std::to_string(i) + "].name", "two exports are named \"" + config.exports[i].name + "\""});
    }
    check_export(config, i, out);
  }
  for (std::size_t i = 0; i < config.servers.size(); ++i) {
    const ServerConfig& server = config.servers[i];
    const bool has_one = std::any_of(config.exports.begin(), config.exports.end(), [&](const ExportConfig& one) {
      return one.server.value == 0 || one.server == server.id;
    });
    if (server.roles.block && !has_one) {
      out.push_back(
          {server_key(i, "roles"), server_name(server) + " has the role block and no export: write [[exports]]"});
    }
  }
}

}  // namespace

Result<void> check_url(std::string_view url) {
  const auto refuse = [&](std::string_view why) {
    return Error::told(Errc::kBadAddress, "\"" + std::string(url.substr(0, 80)) + "\" " + std::string(why));
  };
  const auto [scheme, rest] = split_url(url);
  if (url.size() > kMaxUrlBytes) return refuse("is longer than 255 characters");
  if (scheme.empty())
    return refuse("is no address: write tcp://host:port, tcp+tls://host:port, shm://name or ofi+PROVIDER://host:port");
  if (has_host(scheme)) {
    if (scheme.starts_with("ofi+") && !all_of(scheme.substr(4), is_name_char))
      return refuse("names no libfabric provider");
    if (scheme == "ofi+shm") {
      const bool name = rest.size() <= kMaxShmName && !rest.starts_with('.') && all_of(rest, is_host_char);
      return name ? Result<void>() : refuse("needs a name of at most 96 letters, digits, '.', '_', '-', ':'");
    }
    if (host_of(rest).empty()) return refuse("needs a host and a port from 1 to 65535");
    return {};
  }
  if (scheme == "shm") {
    const bool path = rest.size() > 1 && rest.starts_with('/') && !rest.ends_with('/');
    const bool name = rest.size() <= kMaxShmName && all_of(rest, is_name_char);
    if (path || name) return {};
    return refuse("needs a path, or a name of at most 96 letters, digits, '.', '_', '-'");
  }
  if (scheme == "sim") return all_of(rest, is_digit) ? Result<void>() : refuse("needs a number");
  return refuse("has an unknown scheme; there are tcp, tcp+tls, shm, ofi+PROVIDER and sim");
}

std::vector<Problem> check(const FileSystemConfig& config) {
  std::vector<Problem> out;
  check_fs(config.fs, out);
  for (std::size_t i = 0; i < config.servers.size(); ++i) check_server(config.servers[i], i, out);
  check_open_servers(config, out);
  check_tls(config, out);
  check_certificates_only(config, out);
  check_protection(config, out);
  check_munge(config, out);
  check_cluster(config, out);
  check_folders(config, out);
  check_exports(config, out);
  if (!is_user_policy(config.network.shm_server_users)) {
    out.push_back({"network.shm_server_users",
                   "network.shm_server_users is \"same\", \"any\", or at most 256 user ids: \"990,991\""});
  }
  if (!is_user_policy(config.network.shm_users)) {
    out.push_back(
        {"network.shm_users", "network.shm_users is \"same\", \"any\", or at most 256 user ids: \"1000,1001\""});
  }
  if (config.network.eager_limit > config.network.buffered_per_peer) {
    out.push_back({"network.eager_limit", "network.eager_limit must not exceed network.buffered_per_peer"});
  }
  return out;
}

}  // namespace spate::config
