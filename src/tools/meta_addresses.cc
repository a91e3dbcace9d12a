// SPDX-License-Identifier: Apache-2.0
#include "tools/meta_addresses.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "config/key_file.h"
#include "tools/certificates.h"
#include "tools/own_address.h"
#include "tools/text_file.h"

namespace spate::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kClientPort = 2;  // after the meta server's port
constexpr std::uint32_t kPeerPort = 3;

std::uint32_t port_of_url(const std::string& url) {
  std::uint32_t port = 0;
  const std::size_t begin = url.rfind(':') + 1;
  std::from_chars(url.data() + begin, url.data() + url.size(), port);
  return port;
}

std::string without_brackets_of(const std::string& host) {
  return host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
}

}  // namespace

std::string no_record_mark(const std::string& folder) { return folder + "/coord/no-record"; }

std::string host_of_url(const std::string& url) {
  const std::size_t begin = url.find("://") + 3;
  return url.substr(begin, url.rfind(':') - begin);
}

Result<std::string> host_and_port(const std::string& text, std::uint32_t usual_port) {
  const std::size_t colon = text.rfind(':');
  const bool has_port = colon != std::string::npos && !text.ends_with(']');
  const std::string all = has_port ? text : fmt::format("{}:{}", text, usual_port);
  const std::uint32_t port = port_of_url(all);
  const bool good = all.find_first_of("/ \t\n\"") == std::string::npos && all.rfind(':') != 0 && port > 0 &&
                    port + kPeerPort < 65536 && all.ends_with(fmt::format(":{}", port));
  if (!good) return Error::told(Errc::kInvalidArgument, "\"" + text + "\" is no HOST and no HOST:PORT");
  return all;
}

EtcdMember member_beside(const config::ServerConfig& meta) {
  const std::uint32_t port = port_of_url(meta.urls.front());
  return {fmt::format("etcd-{}", meta.id.value), host_of_url(meta.urls.front()), port + kClientPort, port + kPeerPort};
}

void set_coordinator(config::FileSystemConfig& config, const std::string& folder, ServerId own) {
  config.meta.coordinator_tls = certificates_folder(folder);
  config.meta.coordinator.clear();
  for (const config::ServerConfig& server : config.servers) {
    if (!server.roles.meta) continue;
    auto& urls = config.meta.coordinator;
    urls.insert(server.id == own ? urls.begin() : urls.end(), client_url(member_beside(server)));
  }
}

Result<void> make_etcd_certificates(const std::string& folder, const Key& server_key, const std::string& host,
                                    const std::string& towards) {
  const std::string tls = certificates_folder(folder);
  std::error_code error;
  fs::create_directories(tls, error);
  if (error) return errno_error(error.value(), "make folder " + tls);
  fs::permissions(folder + "/coord", fs::perms::owner_all, error);
  SPATE_TRY(std::ignore, derive_authority(tls, server_key));
  // etcd looks whether the address from which another member connects is in its certificate.
  std::vector<std::string> names{"127.0.0.1", "localhost", without_brackets_of(host)};
  for (const std::string& address : addresses_of(host)) names.push_back(address);
  if (const auto own = own_address_towards(towards)) names.push_back(without_brackets_of(*own));
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return make_certificate(tls, names);
}

Result<void> create_first_member(const std::string& folder, const config::FileSystemConfig& config,
                                 const EtcdMember& member) {
  std::error_code error;
  fs::remove_all(folder + "/coord", error);  // the remains of an earlier attempt
  SPATE_TRY(const Key key, config::read_key_file(config.fs.server_key_file));
  SPATE_TRY(std::ignore, make_etcd_certificates(folder, key, member.host, host_of_url(config.servers[1].urls.front())));
  SPATE_TRY(std::ignore, write_file(no_record_mark(folder), ""));
  return write_member(folder, only_member(folder, config.fs.id, member, false));
}

EtcdSettings only_member(const std::string& folder, FsId fs, const EtcdMember& member, bool has_begun) {
  return {member, {{member.name, peer_url(member)}}, has_begun,
          fs,     member_data(folder, member.name),  certificates_folder(folder)};
}

}  // namespace spate::tools
