// SPDX-License-Identifier: Apache-2.0
#include "tools/deployment.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "base/unique_fd.h"
#include "config/convert.h"
#include "config/describe.h"
#include "config/key_file.h"
#include "tools/etcd_members.h"
#include "tools/meta_addresses.h"
#include "tools/port_holder.h"
#include "tools/text_file.h"

namespace spate::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kJoined = "joined";  // a file: some servers are on other machines
constexpr const char* kUsualHost = "127.0.0.1";

std::string unformatted_path(const std::string& folder, ServerId server) {
  return folder + "/" + server_name(server) + "/unformatted";
}

Result<void> make_folder(const std::string& path) {
  std::error_code error;
  const bool made = fs::create_directories(path, error);
  if (error) return errno_error(error.value(), "make folder " + path);
  if (made) ::chmod(path.c_str(), 0700);
  return {};
}

config::ServerConfig make_server(const DeploymentPlan& plan, std::uint32_t id) {
  config::ServerConfig server;
  server.id = ServerId(id);
  // Clients look for the leading one of several meta servers at each address, so one address each is enough.
  const bool one_of_several = plan.meta_servers > 1 && id <= plan.meta_servers;
  if (plan.shm && !one_of_several) server.urls.push_back(shm_url(plan.folder, server.id));
  server.urls.push_back((plan.tls ? "tcp+tls://" : "tcp://") + plan.host + ":" +
                        std::to_string(plan.first_port + id - 1));
  const std::string home = plan.folder + "/" + server_name(server.id);
  server.keyval = home + "/keyval";
  if (id <= plan.meta_servers) {
    server.roles.meta = true;
  } else {
    server.roles.io = true;
    server.storage = {home + "/target-0"};
  }
  return server;
}

bool is_ours(const std::string& name) {
  constexpr std::array<std::string_view, 7> kNames = {"keys",  "coord",      "run",           "log",
                                                      kJoined, "spate.toml", "spate.toml.new"};
  return name.starts_with("server-") || std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

/// A meta server of another machine.
config::ServerConfig meta_elsewhere(const std::string& folder, std::uint32_t id, const std::string& url) {
  config::ServerConfig meta;
  meta.id = ServerId(id);
  meta.urls = {url};
  meta.roles.meta = true;
  meta.keyval = folder + "/" + server_name(meta.id) + "/keyval";  // required, and used on that machine alone
  return meta;
}

/// Whether a server's folder has anything but the mark of a new one: that is data.
bool holds_data(const fs::path& server_folder) {
  std::error_code error;
  for (fs::directory_iterator at(server_folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename() != "unformatted") return true;
  }
  return false;
}

std::array<std::string, 2> key_paths(const std::string& folder) {
  return {folder + "/keys/client.key", folder + "/keys/server.key"};
}

Result<void> create_keys(const std::string& folder, Random& random) {
  for (const std::string& path : key_paths(folder)) {
    ::unlink(path.c_str());
    SPATE_TRY(std::ignore, config::create_key_file(path, random));
  }
  return {};
}

Result<config::FileSystemConfig> with_settings(const config::FileSystemConfig& config, const std::string& folder,
                                               const std::vector<config::Override>& settings) {
  if (settings.empty()) return config;
  SPATE_TRY(auto loaded, config::load({config::to_toml(config), config_path(folder), folder, settings}));
  return std::move(loaded.config);
}

std::vector<EtcdMember> members_of_plan(const DeploymentPlan& plan) {
  return planned_members(plan.etcd_members, plan.first_port + plan.meta_servers + plan.io_servers);
}

}  // namespace

Result<config::TroveKind> trove_kind(const std::string& name) {
  const config::Key& key = *config::find_key("servers", "trove");
  auto value = config::convert(key, config::raw_from_text(key, name));
  if (!value) return Error::told(Errc::kInvalidArgument, "--trove takes " + config::allowed_text(key));
  return static_cast<config::TroveKind>(std::get<std::uint64_t>(*value));
}

Result<void> check_rack(const std::string& rack) {
  if (rack.empty() || is_rack_name(rack)) return {};
  return Error::told(Errc::kInvalidArgument,
                     fmt::format("--rack takes 1 to {} letters, digits, '.', '_' and '-', not \"{}\"", kMaxRackBytes,
                                 printable(rack)));
}

std::string server_name(ServerId server) { return "server-" + std::to_string(server.value); }
std::string shm_url(const std::string& folder, ServerId server) {
  return "shm://" + folder + "/run/" + server_name(server) + ".sock";
}
std::string server_key_path(const std::string& folder) { return key_paths(folder)[1]; }
std::string config_path(const std::string& folder) { return folder + "/spate.toml"; }
std::string log_path(const std::string& folder, ServerId server) {
  return folder + "/log/" + server_name(server) + ".log";
}

Result<void> check_owner(const std::string& folder) {
  struct stat st{};
  if (::stat(folder.c_str(), &st) != 0) return {};  // it will be made, or the next use of it reports the error
  if (st.st_uid != ::geteuid())
    return Error::told(Errc::kNotPermitted,
                       folder + " is another user's: let that user run this, or choose another with --dir");
  if ((st.st_mode & S_IWOTH) != 0)
    return Error::told(Errc::kNotPermitted,
                       folder + " can be changed by everybody: chmod o-w it, or choose another with --dir");
  return {};
}

Result<FolderState> inspect_folder(const std::string& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (status.type() == fs::file_type::not_found) return FolderState::kFree;
  if (error) return errno_error(error.value(), "look at " + folder);
  if (!fs::is_directory(status))
    return Error::told(Errc::kNotDirectory, folder + " is a file: choose another place with --dir");
  if (fs::exists(config_path(folder), error)) return FolderState::kDeployment;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!is_ours(name)) {
      return Error::told(Errc::kNotEmpty, folder + " contains other files (" + name +
                                              ") and no file system: choose a new or empty folder with --dir");
    }
    if (name.starts_with("server-") && holds_data(at->path())) {
      return Error::told(
          Errc::kNotFound,
          folder +
              " holds the data of a file system, but its spate.toml is gone: put it back, or choose another "
              "folder with --dir");
    }
  }
  if (error) return errno_error(error.value(), "look into " + folder);
  return FolderState::kFree;
}

Result<void> prepare_folder(const std::string& folder) {
  SPATE_TRY(std::ignore, make_folder(folder));
  SPATE_TRY(std::ignore, check_owner(folder));  // another user may have made it a moment ago
  return make_folder(folder + "/run");
}

Result<config::FileSystemConfig> planned_config(const DeploymentPlan& plan, FsId id) {
  config::FileSystemConfig config;
  config.fs.id = id;
  const auto keys = key_paths(plan.folder);
  config.fs.client_key_file = keys[0];
  config.fs.server_key_file = keys[1];
  config.defaults.replicas = plan.replicas;
  config.defaults.min_copies = plan.min_copies;
  if (plan.shm) config.flow.bypass = config.client.bypass = config::Bypass::kWrite;
  const std::uint32_t count = plan.meta_servers + (plan.metas_elsewhere.empty() ? plan.io_servers : 0);
  for (std::uint32_t number = 1; number <= count; ++number) {
    config::ServerConfig server = make_server(plan, number);
    server.trove = plan.trove;
    server.rack = plan.rack;
    config.servers.push_back(std::move(server));
  }
  for (std::size_t i = 0; i < plan.metas_elsewhere.size(); ++i) {
    const auto number = static_cast<std::uint32_t>(plan.meta_servers + 1 + i);
    const std::string address = (plan.tls ? "tcp+tls://" : "tcp://") + plan.metas_elsewhere[i];
    config.servers.push_back(meta_elsewhere(plan.folder, number, address));
  }
  for (const EtcdMember& member : members_of_plan(plan)) config.meta.coordinator.push_back(client_url(member));
  if (plan.etcd_members > 0) config.meta.coordinator_tls = certificates_folder(plan.folder);
  if (!plan.metas_elsewhere.empty()) {
    set_coordinator(config, plan.folder, ServerId(1));
    SPATE_TRY(std::ignore, config::load({config::to_toml(config), config_path(plan.folder), plan.folder, {}}));
  }
  return with_settings(config, plan.folder, plan.settings);
}

Result<void> prepare_server(const std::string& folder, ServerId server) {
  SPATE_TRY(std::ignore, make_folder(folder + "/" + server_name(server)));
  return write_file(unformatted_path(folder, server), "");
}

Result<void> write_config(const std::string& folder, const config::FileSystemConfig& config) {
  return replace_file(config_path(folder), config::to_toml(config));
}

Result<void> mark_joined(const std::string& folder) {
  return write_file(folder + "/" + std::string(kJoined), "Some of the servers are on other machines.\n");
}

Result<void> create_deployment(const DeploymentPlan& plan, Random& random) {
  SPATE_TRY(const config::FileSystemConfig config, planned_config(plan, FsId(random.next() | 1U)));
  for (const char* sub : {"/keys", "/log"}) {
    SPATE_TRY(std::ignore, make_folder(plan.folder + sub));
  }
  SPATE_TRY(std::ignore, create_keys(plan.folder, random));
  if (!plan.metas_elsewhere.empty()) {
    SPATE_TRY(std::ignore, create_first_member(plan.folder, config, member_beside(config.servers.front())));
    SPATE_TRY(std::ignore, mark_joined(plan.folder));
  } else if (plan.etcd_members > 0) {
    SPATE_TRY(std::ignore, create_members(plan.folder, config.fs.id, members_of_plan(plan)));
  }
  for (const config::ServerConfig& server : config.servers) {
    const bool elsewhere = server.roles.meta && server.id.value > plan.meta_servers;
    if (elsewhere) continue;
    SPATE_TRY(std::ignore, prepare_server(plan.folder, server.id));
  }
  return write_config(plan.folder, config);  // last, and atomically: if it exists, everything else exists
}

Result<void> create_joined(const std::string& folder, const JoinToken& token, const std::vector<std::string>& meta_urls,
                           ServerId own, const std::vector<config::Override>& settings) {
  const auto keys = key_paths(folder);
  config::FileSystemConfig config;
  config.fs.id = token.fs;
  config.fs.client_key_file = keys[0];
  config.fs.server_key_file = keys[1];
  for (std::uint32_t i = 0; i < meta_urls.size(); ++i)
    config.servers.push_back(meta_elsewhere(folder, token.meta.value + i, meta_urls[i]));
  if (meta_urls.size() > 1) set_coordinator(config, folder, own);
  SPATE_TRY(const config::FileSystemConfig whole, with_settings(config, folder, settings));
  for (const char* sub : {"/keys", "/log"}) {
    SPATE_TRY(std::ignore, make_folder(folder + sub));
  }
  SPATE_TRY(std::ignore, write_file(keys[0], config::key_file_text(token.client_key)));
  if (token.server_key) {
    SPATE_TRY(std::ignore, write_file(keys[1], config::key_file_text(*token.server_key)));
  }
  SPATE_TRY(std::ignore, mark_joined(folder));
  return write_config(folder, whole);
}

bool has_folder(const std::string& folder, ServerId server) {
  std::error_code ignored;
  return fs::exists(folder + "/" + server_name(server), ignored);
}
bool is_joined(const std::string& folder) {
  std::error_code ignored;
  return fs::exists(folder + "/" + std::string(kJoined), ignored);
}
bool is_here(const std::string& folder, ServerId server) { return !is_joined(folder) || has_folder(folder, server); }

Result<void> remove_deployment(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> ours;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (is_ours(at->path().filename().string())) ours.push_back(at->path());
  // The configuration last: if a removal is interrupted, the next one can remove the rest.
  std::sort(ours.begin(), ours.end(), [&](const fs::path& a, const fs::path& b) {
    return std::pair(a == config_path(folder), a) < std::pair(b == config_path(folder), b);
  });
  for (const fs::path& path : ours) {
    if (!error) fs::remove_all(path, error);
    if (error) return errno_error(error.value(), "remove " + path.string());
  }
  if (error) return errno_error(error.value(), "look into " + folder);
  fs::remove(folder, error);  // fails if it holds other things
  return {};
}

std::uint32_t port_count(const DeploymentPlan& plan) {
  return plan.meta_servers + plan.io_servers + 2 * plan.etcd_members;
}

Result<void> check_ports(const DeploymentPlan& plan) {
  for (std::uint32_t i = 0; i < port_count(plan); ++i) {
    const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) return errno_error(errno, "make a socket");
    const int yes = 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(plan.first_port + i));
    address.sin_addr.s_addr = htonl(plan.host == kUsualHost ? INADDR_LOOPBACK : INADDR_ANY);
    const bool free = ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                      ::listen(socket.get(), 1) == 0;
    if (!free) {
      const int why = errno;
      const auto port = static_cast<std::uint16_t>(plan.first_port + i);
      const std::string holder = port_holder(port);
      const std::string what = "port " + std::to_string(port);
      if (holder.empty()) return errno_error(why, what + " is not available; --port chooses others");
      return Error::told(Errc::kBusy, what + " is taken by " + holder + "; --port chooses others");
    }
  }
  return {};
}

bool is_unformatted(const std::string& folder, ServerId server) {
  return ::access(unformatted_path(folder, server).c_str(), F_OK) == 0;
}
void set_formatted(const std::string& folder, ServerId server) { ::unlink(unformatted_path(folder, server).c_str()); }

}  // namespace spate::tools
