// SPDX-License-Identifier: Apache-2.0
#include "config/check.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>

#include "base/printable.h"
#include "config/url.h"

namespace spate::config {
namespace {

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
  if (config.meta.min_copies > std::max<std::size_t>(metas, 1)) {
    out.push_back({"meta.min_copies", "meta.min_copies is " + std::to_string(config.meta.min_copies) + ", and " +
                                          std::to_string(metas) + " servers have the meta role"});
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
    if (!server.rack.empty() && !is_rack_name(server.rack)) {
      out.push_back({server_key(i, "rack"), "\"" + printable(server.rack) +
                                                "\" is no name of a rack: 1 to 63 letters, digits, '.', '_' and '-'"});
    }
    metas += server.roles.meta ? 1U : 0U;
    ios += server.roles.io ? 1U : 0U;
  }
  if (!ids.empty() && config.metrics.port + *ids.rbegin() > 65536)
    out.push_back({"metrics.port", "server " + std::to_string(*ids.rbegin()) + " would have a port beyond 65535"});
  check_group(config, metas, out);
  if (metas == 0) out.push_back({"", "no server has the meta role: give one [[servers]] roles = [\"meta\"]"});
  // Meta servers alone: a machine that joined. It learns of the io servers from the one that leads.
  if (ios == 0 && config.servers.size() > 1 && (metas < config.servers.size() || config.meta.coordinator.empty()))
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

std::vector<Problem> check(const FileSystemConfig& config) {
  std::vector<Problem> out;
  if (!is_name(config.fs.name)) out.push_back({"fs.name", "fs.name may hold letters, digits, '.', '_' and '-'"});
  for (std::size_t i = 0; i < config.servers.size(); ++i) check_server(config.servers[i], i, out);
  check_auth(config, out);
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
