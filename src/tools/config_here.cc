// SPDX-License-Identifier: Apache-2.0
// `spate config here`: the servers that belong on this machine.
#include "tools/config_here.h"

#include <fmt/core.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "assembly/keyval_place.h"
#include "base/unique_fd.h"
#include "tools/name_space.h"
#include "tools/text.h"

namespace spate::tools {
namespace {

/// Whether a socket can be bound to the address.
bool is_own_address(const addrinfo& address) {
  sockaddr_storage any_port{};
  std::memcpy(&any_port, address.ai_addr, address.ai_addrlen);
  if (address.ai_family == AF_INET) reinterpret_cast<sockaddr_in*>(&any_port)->sin_port = 0;
  if (address.ai_family == AF_INET6) reinterpret_cast<sockaddr_in6*>(&any_port)->sin6_port = 0;
  const UniqueFd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return socket && ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any_port), address.ai_addrlen) == 0;
}

/// Whether the host in the URL is a name or number of this machine. Nothing for shm, since every machine has such
/// names.
std::optional<bool> is_here(const std::string& url) {
  const std::size_t begin = url.find("://");
  if (begin == std::string::npos || url.starts_with("shm:") || url.starts_with("ofi+shm:")) return std::nullopt;
  std::string host = url.substr(begin + 3, url.rfind(':') - begin - 3);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  bool own = false;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) own = own || is_own_address(*one);
  ::freeaddrinfo(found);
  return own;
}

}  // namespace

bool belongs_here(const config::ServerConfig& server) {
  bool only_local = true;
  for (const std::string& url : server.urls) {
    const std::optional<bool> here = is_here(url);
    if (here && *here) return true;
    only_local = only_local && !here;
  }
  return only_local;
}

int show_servers_here(Context& context, const config::FileSystemConfig& config) {
  nlohmann::json rows = nlohmann::json::array();
  for (const config::ServerConfig& server : config.servers) {
    if (!belongs_here(server)) continue;
    std::vector<std::string> folders = server.storage;
    if (server.roles.meta || server.roles.io) folders.push_back(assembly::keyval_folder(server));
    rows.push_back({{"server", server.id.value}, {"folders", folders}});
    if (context.json) continue;
    std::string line = std::to_string(server.id.value);
    for (const std::string& folder : folders) line += "\t" + printable(folder);
    print(line + "\n");
  }
  if (context.json) context.print_json(rows);
  return kExitOk;
}

}  // namespace spate::tools
