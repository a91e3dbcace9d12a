// SPDX-License-Identifier: Apache-2.0
#include "tools/etcd_members.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/unique_fd.h"
#include "tools/background.h"
#include "tools/certificates.h"
#include "tools/probe.h"
#include "tools/text_file.h"

namespace spate::tools {
namespace {

namespace fs = std::filesystem;

constexpr Duration kSupervisorGrace = std::chrono::seconds(10);

std::string url_at(const std::string& host, std::uint32_t port) { return fmt::format("https://{}:{}", host, port); }
/// The address at which a member listens. etcd takes no name there; a name may mean another address on this machine
/// than elsewhere.
std::string listen_url(const std::string& host, std::uint32_t port) {
  const std::string bare = host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
  unsigned char room[sizeof(in6_addr)];
  const bool number = ::inet_pton(AF_INET, bare.c_str(), room) == 1 || ::inet_pton(AF_INET6, bare.c_str(), room) == 1;
  return url_at(number ? host : "0.0.0.0", port);
}

/// Members with different tokens take each other for members of different clusters.
std::string token_of(const EtcdSettings& settings) {
  const std::string token = fmt::format("spate-{:016x}", settings.fs.value);
  return settings.beginning == 0 ? token : fmt::format("{}-{}", token, settings.beginning);
}

nlohmann::json transport_security(const std::string& tls) {
  return {{"cert-file", tls + "/" + kCertificateFile},
          {"key-file", tls + "/" + kCertificateKeyFile},
          {"client-cert-auth", true},
          {"trusted-ca-file", tls + "/" + kAuthorityFile}};
}

/// The TCP address at which the member of this deployment listens; empty: its settings cannot be read.
std::string address_of(const std::string& folder, const std::string& name) {
  std::ifstream in(member_settings(folder, name));
  const nlohmann::json settings = nlohmann::json::parse(in, nullptr, false);
  if (!settings.is_object() || !settings.contains("listen-client-urls")) return {};
  const auto& url = settings["listen-client-urls"];
  if (!url.is_string() || !url.get_ref<const std::string&>().starts_with("https://")) return {};
  return "tcp" + url.get_ref<const std::string&>().substr(5);
}

/// Marks that the member has begun, if it has: from now on it is not started without its records. Returns whether it
/// has begun.
Result<bool> mark_begun(const std::string& folder, const std::string& name) {
  const std::string mark = begun_mark(folder, name);
  SPATE_TRY(const bool there, has_records(folder, name));
  if (!there || ::access(mark.c_str(), F_OK) == 0) return there;
  SPATE_TRY(std::ignore, write_file(mark, ""));
  return true;
}

/// Waits until the member answers and has its records, which etcd makes after it has begun to listen. Marks that it has
/// begun.
Result<void> wait_until_begun(const std::string& folder, const std::string& name, MonoTime until) {
  SystemClock clock;
  const std::string address = address_of(folder, name);
  for (;;) {
    if (answers({address})) {
      SPATE_TRY(const bool has_begun, mark_begun(folder, name));
      if (has_begun) return {};
    }
    if (address.empty() || clock.now() >= until) {
      return Error::told(Errc::kUnreachable,
                         fmt::format("{} does not start; its log: {}", name, member_log(folder, name)));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

Result<EtcdSupervisor> start_supervisor(const std::string& folder, const std::string& name) {
  const std::string log = member_log(folder, name);
  ::mkdir((folder + "/log").c_str(), 0700);
  const UniqueFd out(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640));
  if (!out) return errno_error(errno, "open " + log);
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    // etcd also reads options from the environment.
    if (!std::string_view(*entry).starts_with("ETCD_")) environment.emplace_back(*entry);
  }
  const std::string own = fs::read_symlink("/proc/self/exe").string();
  EtcdSupervisor supervisor{0, name};
  SPATE_TRY(supervisor.pid,
            spawn_in_background({own, "coord", "run", folder, name}, std::move(environment), out.get()));
  return supervisor;
}

}  // namespace

std::string client_url(const EtcdMember& member) { return url_at(member.host, member.client_port); }
std::string peer_url(const EtcdMember& member) { return url_at(member.host, member.peer_port); }

std::string settings_text(const EtcdSettings& settings) {
  std::string cluster;
  for (const auto& [name, url] : settings.all) cluster += (cluster.empty() ? "" : ",") + name + "=" + url;
  const EtcdMember& self = settings.self;
  const nlohmann::json json = {{"name", self.name},
                               {"data-dir", settings.data},
                               {"listen-client-urls", listen_url(self.host, self.client_port)},
                               {"advertise-client-urls", client_url(self)},
                               {"listen-peer-urls", listen_url(self.host, self.peer_port)},
                               {"initial-advertise-peer-urls", peer_url(self)},
                               {"initial-cluster", cluster},
                               {"initial-cluster-token", token_of(settings)},
                               {"initial-cluster-state", settings.joins ? "existing" : "new"},
                               {"enable-grpc-gateway", true},  // true by default, but not in a file (etcd 3.4)
                               {"auto-compaction-mode", "periodic"},
                               {"auto-compaction-retention", "1h"},
                               {"client-transport-security", transport_security(settings.tls)},
                               {"peer-transport-security", transport_security(settings.tls)}};
  return json.dump(2) + "\n";  // etcd reads YAML, of which JSON is a part
}

Result<std::string> etcd_program() {
  if (const char* const given = std::getenv("SPATE_ETCD"); given != nullptr && *given != '\0')
    return std::string(given);
  const char* const path = std::getenv("PATH");
  std::string folders = path == nullptr ? "" : path;
  folders += ":/usr/bin:/usr/local/bin";
  for (std::size_t at = 0; at <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', at), folders.size());
    const std::string program = folders.substr(at, end - at) + "/etcd";
    if (program.starts_with('/') && ::access(program.c_str(), X_OK) == 0) return program;
    at = end + 1;
  }
  return Error::told(
      Errc::kNotFound,
      "several meta servers need the program etcd, which says which of them leads, and it is not on this "
      "machine: install the package etcd-server (`apt-get install etcd-server`)");
}

std::vector<EtcdMember> planned_members(std::uint32_t count, std::uint32_t first_port) {
  std::vector<EtcdMember> members;
  for (std::uint32_t i = 0; i < count; ++i)
    members.push_back({fmt::format("etcd-{}", i + 1), "127.0.0.1", first_port + 2 * i, first_port + 2 * i + 1});
  return members;
}

std::string certificates_folder(const std::string& folder) { return folder + "/coord/tls"; }
std::string member_settings(const std::string& folder, const std::string& name) {
  return folder + "/coord/" + name + ".json";
}
std::string member_data(const std::string& folder, const std::string& name) { return folder + "/coord/" + name; }
std::string member_log(const std::string& folder, const std::string& name) { return folder + "/log/" + name + ".log"; }

Result<EtcdMember> read_member(const std::string& folder, const std::string& name) {
  std::ifstream in(member_settings(folder, name));
  const nlohmann::json settings = nlohmann::json::parse(in, nullptr, false);
  EtcdMember member{name, "", 0, 0};
  const auto take = [&settings](const char* key, std::string& host, std::uint32_t& port) {
    const std::string url = settings.is_object() ? settings.value(key, "") : "";
    const std::size_t colon = url.rfind(':');
    if (!url.starts_with("https://") || colon < 8) return;
    host = url.substr(8, colon - 8);
    std::from_chars(url.data() + colon + 1, url.data() + url.size(), port);
  };
  take("advertise-client-urls", member.host, member.client_port);
  take("initial-advertise-peer-urls", member.host, member.peer_port);
  if (member.host.empty() || member.client_port == 0 || member.peer_port == 0)
    return Error::told(Errc::kCorrupt, member_settings(folder, name) + " cannot be read");
  return member;
}

Result<bool> has_records(const std::string& folder, const std::string& name) {
  const std::string log = member_data(folder, name) + "/member/wal";
  std::error_code error;
  const bool there = fs::exists(log, error);
  if (error) return errno_error(error.value(), "look at " + log);
  return there;
}

std::string begun_mark(const std::string& folder, const std::string& name) {
  return folder + "/coord/" + name + ".begun";
}

Result<void> check_records(const std::string& folder, const std::string& name) {
  SPATE_TRY(const bool there, has_records(folder, name));
  if (there || ::access(begun_mark(folder, name).c_str(), F_OK) != 0) return {};
  std::ifstream in(member_settings(folder, name));
  const nlohmann::json settings = nlohmann::json::parse(in, nullptr, false);
  if (!settings.is_object() || settings.value("initial-cluster-state", "") != "existing") return {};
  return Error::told(Errc::kNotFound, "the records of " + name + " are lost (" + member_data(folder, name) +
                                          "): mount their disk, or type this machine's `spate join` line again, "
                                          "which gets them from the other machines. If most of these have lost "
                                          "theirs, too, `spate coord begin` begins a new etcd");
}

Result<void> write_member(const std::string& folder, const EtcdSettings& settings) {
  const std::string path = member_settings(folder, settings.self.name);
  const std::string text = settings_text(settings);
  std::ifstream in(path);
  if (in && std::string(std::istreambuf_iterator<char>(in), {}) == text) return {};
  return replace_file(path, text);
}

Result<void> create_members(const std::string& folder, FsId fs, const std::vector<EtcdMember>& members) {
  const std::string tls = certificates_folder(folder);
  std::error_code error;
  fs::remove_all(folder + "/coord", error);  // the remains of an earlier attempt
  fs::create_directories(tls, error);
  if (error) return errno_error(error.value(), "make folder " + tls);
  fs::permissions(folder + "/coord", fs::perms::owner_all, error);
  SPATE_TRY(std::ignore, make_authority(tls));
  SPATE_TRY(std::ignore, make_certificate(tls, {"127.0.0.1", "localhost"}));
  std::vector<std::pair<std::string, std::string>> all;
  for (const EtcdMember& member : members) all.emplace_back(member.name, peer_url(member));
  for (const EtcdMember& member : members) {
    SPATE_TRY(std::ignore, write_member(folder, {member, all, false, fs, member_data(folder, member.name), tls}));
  }
  return {};
}

std::vector<std::string> members_of(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder + "/coord", error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".json") names.push_back(at->path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::vector<EtcdSupervisor>> start_members(const std::string& folder, MonoTime until) {
  for (const std::string& name : members_of(folder)) {
    SPATE_TRY(std::ignore, check_records(folder, name));
    SPATE_TRY(std::ignore, mark_begun(folder, name));
  }
  const std::vector<EtcdSupervisor> before = running_supervisors(folder);
  std::vector<EtcdSupervisor> started;
  Result<void> good;
  for (const std::string& name : members_of(folder)) {
    if (std::ranges::any_of(before, [&](const EtcdSupervisor& supervisor) { return supervisor.name == name; }))
      continue;
    auto supervisor = start_supervisor(folder, name);
    if (supervisor) started.push_back(*std::move(supervisor));
    if (!supervisor) good = std::move(supervisor).error();
  }
  for (const EtcdSupervisor& supervisor : started) {
    if (good) good = wait_until_begun(folder, supervisor.name, until);
  }
  if (good) return started;
  std::ignore = stop_members(started);
  return std::move(good).error();
}

Result<void> stop_members(const std::vector<EtcdSupervisor>& supervisors) {
  for (const EtcdSupervisor& supervisor : supervisors) ::kill(supervisor.pid, SIGTERM);  // to all at once
  Result<void> good;
  for (const EtcdSupervisor& supervisor : supervisors) {
    auto ended = end_process(supervisor.pid, supervisor.name, kSupervisorGrace);
    if (!ended) good = std::move(ended);
  }
  return good;
}

}  // namespace spate::tools
