// SPDX-License-Identifier: Apache-2.0
// `spate server add`: a new io server on this machine, while the file system is in use.
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "assembly/tls_keys.h"
#include "config/url.h"
#include "fsck/servers.h"
#include "model/server_url.h"
#include "tools/commands.h"
#include "tools/deployment.h"
#include "tools/fsck.h"
#include "tools/server_control.h"
#include "tools/server_lost.h"
#include "tools/text.h"
#include "tools/text_file.h"
#include "tools/up_down.h"
#include "wire/cluster_messages.h"
#include "wire/membership_messages.h"
#include "wire/meta_messages.h"

namespace spate::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kFirstPort = 7400;
constexpr std::uint32_t kPortsTried = 200;
constexpr std::uint32_t kReplyRoom = (1U << 20U) + (64U << 10U);
constexpr Duration kReadyTimeout = std::chrono::seconds(60);
constexpr Duration kJoinTimeout = std::chrono::seconds(30);

struct ServerOptions {
  std::string host;  // empty, NAME or NAME:PORT
  std::vector<std::string> storage;
  std::string rack;  // empty: not known
};

/// The data of the new server, and where it is recorded.
struct Addition {
  std::string file;    // spate.toml
  std::string folder;  // of it
  bool deployment = false;
  std::string before;  // the file's text
  ServerId id;
  std::string keyval;  // empty: beside its first storage folder
  std::vector<std::string> storage;
  std::vector<std::string> urls;
  std::string rack;
};

/// Requests to the meta server with the server key.
class MetaServer {
 public:
  static Result<MetaServer> open(Context& context) {
    MetaServer meta;
    SPATE_TRY(meta.process_, context.file_system(true));
    client::Session& session = meta.process_->client().session();
    meta.servers_ =
        std::make_unique<fsck::Servers>(servers_options(session), session.network(), meta.process_->random());
    return meta;
  }
  Result<ServerId> reserve() {
    const wire::ReserveServerRequest request;
    auto reply = process_->run(
        [&](client::Client&) { return servers_->ask_meta<wire::ReserveServerReply>(request, kReplyRoom); });
    if (reply.code() == Errc::kNotSupported)
      return Error::told(Errc::kNotSupported,
                         "the meta server has an older version: upgrade it, or name the new server "
                         "in its spate.toml and restart it");
    if (!reply) return std::move(reply).error();
    return reply->server;
  }
  /// Waits until the server is part of the file system.
  Result<void> wait_for(ServerId id) {
    return process_->run([&](client::Client& client) { return joined(client.cluster().executor(), id); });
  }

 private:
  job::Task<Result<void>> joined(job::Executor& executor, ServerId id) {
    const MonoTime until = executor.now() + kJoinTimeout;
    while (executor.now() < until) {
      const wire::ClusterMapRequest request;
      SPATE_CO_TRY(const auto reply, co_await servers_->ask_meta<wire::ClusterMapReply>(request, kReplyRoom));
      if (reply.map.find_server(id) != nullptr) co_return Result<void>();
      std::ignore = co_await executor.sleep(std::chrono::milliseconds(50), {});
    }
    co_return Error::told(Errc::kTimeout, fmt::format("server {} runs, but the meta server does not know it yet: its "
                                                      "log says why",
                                                      id.value));
  }

  assembly::ClientProcess* process_ = nullptr;
  std::unique_ptr<fsck::Servers> servers_;
};

/// 0: it has none.
std::uint32_t port_of(const std::string& url) {
  std::uint32_t port = 0;
  const std::size_t colon = url.rfind(':');
  if (colon != std::string::npos) std::from_chars(url.data() + colon + 1, url.data() + url.size(), port);
  return port;
}

/// The TCP ports of the file system's servers, also of those that are down; with a host, only of that host.
std::set<std::uint32_t> ports_of(const config::FileSystemConfig& config, std::string_view host = {}) {
  std::set<std::uint32_t> ports;
  for (const config::ServerConfig& server : config.servers) {
    for (const std::string& url : server.urls) {
      if (!config::is_tcp_url(url)) continue;
      if (host.empty() || config::host_of(config::split_url(url).rest) == host) ports.insert(port_of(url));
    }
  }
  return ports;
}

/// A port of this machine, as near to the file system's own ones as possible.
Result<std::uint32_t> free_port(const std::string& host, const config::FileSystemConfig& config) {
  const std::set<std::uint32_t> all = ports_of(config);
  const std::uint32_t first = all.empty() ? kFirstPort : *all.begin();
  std::set<std::uint32_t> taken = ports_of(config, host);
  for (const std::string& url : config.meta.coordinator) {
    const std::uint32_t port = port_of(url);
    const bool here = config::host_of(config::split_url(url).rest) == host;
    if (here) taken.insert({port, port + 1});  // for clients and for the other members of etcd
  }
  Result<void> why = Error(Errc::kBusy, "all ports are taken");
  for (std::uint32_t port = first; port < first + kPortsTried; ++port) {
    if (taken.contains(port)) continue;
    DeploymentPlan plan;
    plan.meta_servers = 0;
    plan.io_servers = 1;
    plan.first_port = port;
    plan.host = host;
    why = check_ports(plan);
    if (why) return port;
  }
  return why.error();
}

/// HOST as given, with a free port of this machine if it names none.
Result<std::string> address_of(const std::string& host, const config::FileSystemConfig& config) {
  const std::string scheme = assembly::uses_tls(config) ? "tcp+tls://" : "tcp://";
  const bool has_port = host.rfind(':') != std::string::npos && !host.ends_with(']');
  if (has_port) return scheme + host;
  SPATE_TRY(const std::uint32_t port, free_port(host, config));
  return fmt::format("{}{}:{}", scheme, host, port);
}

Result<std::string> read_text(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return errno_error(errno, "open " + file);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

/// Lists of strings are written alike in JSON and TOML.
std::string text_with(const Addition& added) {
  std::string text = added.before;
  if (!text.ends_with('\n')) text += '\n';
  text += fmt::format("\n[[servers]]\nid = {}\nurls = {}\nroles = [\"io\"]\nstorage = {}\n", added.id.value,
                      nlohmann::json(added.urls).dump(), nlohmann::json(added.storage).dump());
  if (!added.keyval.empty()) text += "keyval = " + nlohmann::json(added.keyval).dump() + "\n";
  if (!added.rack.empty()) text += "rack = " + nlohmann::json(added.rack).dump() + "\n";
  return text;
}

Result<Addition> plan_addition(Context& context, const ServerOptions& options) {
  Addition added;
  SPATE_TRY(std::ignore, check_rack(options.rack));
  added.rack = options.rack;
  SPATE_TRY(added.file, context.config_file());
  added.folder = fs::path(added.file).parent_path().string();
  added.deployment = is_deployment(added.folder);
  std::error_code ignored;
  for (const std::string& folder : options.storage)
    added.storage.push_back(fs::absolute(folder, ignored).lexically_normal());
  if (added.deployment) {
    SPATE_TRY(std::ignore, check_owner(added.folder));
    return added;
  }
  if (options.host.empty() || options.storage.empty())
    return Error::told(Errc::kInvalidArgument,
                       "name this machine as the others reach it, and the folders for data: `spate server add HOST "
                       "--storage DIR`");
  if (added.file != kMachineConfig || ::geteuid() != 0)
    return Error::told(Errc::kNotPermitted, fmt::format("run it as root, on the machine of the new server, with {}: "
                                                        "the service spated@ reads that",
                                                        kMachineConfig));
  return added;
}

/// The host in the address of the last server of this spate.toml, which belongs to this machine.
std::string host_of_last(const config::FileSystemConfig& config) {
  const std::string& url = config.servers.back().urls.back();
  const std::size_t begin = url.find("://") + 3;
  return url.substr(begin, url.rfind(':') - begin);
}

Result<void> name_it(const ServerOptions& options, MetaServer& meta, Addition& added) {
  SPATE_TRY(const auto loaded, config::load_file(added.file, {}));
  const std::string host = options.host.empty() ? host_of_last(loaded.config) : options.host;
  SPATE_TRY(const std::string address, address_of(host, loaded.config));
  SPATE_TRY(added.id, meta.reserve());
  if (!added.deployment) added.urls.push_back(fmt::format("shm:///run/spate/{}", added.id.value));
  if (added.deployment && is_shm_url(loaded.config.servers.back().urls.front()))
    added.urls.push_back(shm_url(added.folder, added.id));
  added.urls.push_back(address);
  if (!added.deployment) return {};
  const std::string home = added.folder + "/" + server_name(added.id);
  added.keyval = home + "/keyval";
  if (added.storage.empty()) added.storage.push_back(home + "/target-0");
  return {};
}

Result<void> start_in_deployment(const Addition& added) {
  SPATE_TRY(std::ignore, prepare_server(added.folder, added.id));
  SPATE_TRY(const StartedServer started, start_server(added.folder, added.id));
  SystemClock clock;
  const std::string why_not = wait_ready(added.folder, started, clock.now() + kReadyTimeout);
  if (why_not.empty()) return {};
  std::ignore = stop_server(added.folder, added.id, started.pid, std::chrono::seconds(2));
  return Error::told(Errc::kUnreachable, why_not);
}

/// Makes the server's stores and starts its service on this machine. Only this server's stores are made: another server
/// of this machine whose disk is not mounted now must not get an empty store.
Result<void> start_service(ServerId id) {
  const std::string command = fmt::format("spate-setup --format --server {}", id.value);
  if (std::system(command.c_str()) == 0) return {};
  return Error::told(Errc::kUnreachable, command + " has failed");
}

/// The lock holds until it is destroyed: meanwhile only this command reads and replaces the file.
Result<FolderLock> lock_file(Addition& added) {
  SPATE_TRY(FolderLock lock, added.deployment ? lock_folder(added.folder, kLockTimeout)
                                              : lock_configuration(added.folder, kLockTimeout));
  SPATE_TRY(added.before, read_text(added.file));
  return lock;
}

int run_add(Context& context, const ServerOptions& options) {
  auto added = plan_addition(context, options);
  if (!added) return context.fail(added.error());
  const auto lock = lock_file(*added);
  if (!lock) return context.fail(lock.error());
  auto meta = MetaServer::open(context);
  if (!meta) return context.fail(meta.error());
  if (const auto named = name_it(options, *meta, *added); !named) return context.fail(named.error());
  const std::string text = text_with(*added);
  if (const auto good = config::load({text, added->file, added->folder, {}}); !good) return context.fail(good.error());
  if (const auto written = replace_file(added->file, text); !written) return context.fail(written.error());
  const auto started = added->deployment ? start_in_deployment(*added) : start_service(added->id);
  if (!started) {
    std::ignore = replace_file(added->file, added->before);
    return context.fail(started.error());
  }
  if (const auto joined = meta->wait_for(added->id); !joined) return context.fail(joined.error());
  if (context.json) {
    context.print_json({{"server", added->id.value}, {"urls", added->urls}, {"storage", added->storage}});
  } else if (!context.quiet) {
    print(fmt::format("server {} ({}) is part of the file system: new files use it\n", added->id.value,
                      added->urls.back()));
  }
  return kExitOk;
}

}  // namespace

int add_server(Context& context, const std::string& host, const std::string& rack) {
  return run_add(context, {host, {}, rack});
}

namespace {

struct ServerWords {
  std::string action;
  std::vector<std::string> words;
  ServerOptions options;  // of add; its host is one of the words
  bool accept_loss = false;
};

int run_server(Context& context, ServerWords& given) {
  if (given.action == "lost") {
    if (given.words.empty()) return context.usage("server lost takes the number of each io server that is lost");
    return lose_servers(context, given.words, given.accept_loss);
  }
  if (given.action != "add") return context.usage("server takes add or lost, not \"" + given.action + "\"");
  if (given.words.size() > 1) return context.usage("server add takes one name or address of this machine");
  if (!given.words.empty()) given.options.host = given.words.front();
  return run_add(context, given.options);
}

}  // namespace

Command make_server() {
  auto given = std::make_shared<ServerWords>();
  Command command;
  command.name = "server";
  command.group = "Start and stop";
  command.summary = "add an io server while the file system is in use, or give one up";
  command.details =
      "server add [HOST[:PORT]] --storage DIR... [--rack NAME]\n"
      "The new server gets the next number. The command writes it into this machine's spate.toml, makes its stores\n"
      "and starts it. No server is restarted, and no other machine's spate.toml changes. HOST is the name or\n"
      "address by which the others reach this machine. In a file system of `spate up` neither HOST nor --storage is\n"
      "needed.\n"
      "server lost NUMBER... [--accept-loss]\n"
      "Only if these io servers are gone for good, and mirrored files can be used no more, since nobody else has\n"
      "everything that was written to them. Says what would be lost. With --accept-loss older copies lead, and what\n"
      "was written since they were made is LOST, without an error to the programs that have written it. The lost\n"
      "servers must not run. One that is started later receives the older copies in place of its own.\n"
      "Both need the server key.";
  command.positionals = {{"ACTION", "add or lost", &given->action, true, {"add", "lost"}},
                         {"WORD",
                          "add: this machine's name or address, and the port if it is not one of the usual ones; lost: "
                          "numbers of servers",
                          &given->words}};
  command.options = {
      {"--storage", "a folder for file data; one for each device", &given->options.storage},
      {"--rack", "the rack of this machine, for copies in different racks (not known)", &given->options.rack},
      {"--accept-loss", "lost: do it, although acknowledged writes are lost", &given->accept_loss}};
  command.run = [given](Context& context) { return run_server(context, *given); };
  return command;
}

}  // namespace spate::tools
