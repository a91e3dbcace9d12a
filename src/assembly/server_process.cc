// SPDX-License-Identifier: Apache-2.0
#include "assembly/server_process.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "assembly/coordinator/registry.h"
#include "assembly/keyval_place.h"
#include "assembly/proofs.h"
#include "assembly/registry.h"
#include "assembly/role_options.h"
#include "base/codec.h"
#include "base/unique_fd.h"
#include "config/key_file.h"
#include "log/fields.h"
#include "log/log.h"
#include "log/output.h"
#include "server/io/mirror/group_notes.h"
#include "server/io/registration.h"
#include "trove/target_folder.h"

namespace spate::assembly {
namespace {

constexpr std::uint64_t kMemoryTargetBytes = 4ULL << 30U;

/// Names the device that a target lies on. All servers of this host give a device the same number, and servers of other
/// hosts another one, so that `df` counts each device once. The boot id tells hosts apart (cloned machines share
/// /etc/machine-id). Without a boot id, or for a store in memory, each target counts as a device of its own.
std::uint64_t device_of(const config::ServerConfig& server, std::size_t place) {
  const std::uint64_t host = boot_id();
  struct stat st{};
  const bool shared =
      host != 0 && server.trove != config::TroveKind::kMemory && ::stat(server.storage[place].c_str(), &st) == 0;
  Bytes name;
  Encoder out(name);
  out.flag(shared);
  out.u64(shared ? host : target_id(server.id, place).value);
  out.u64(shared ? static_cast<std::uint64_t>(st.st_dev) : 0);
  return hash64(name);
}

Result<void> set_up_log(const config::LogConfig& config) {
  SPATE_TRY(std::ignore, log::set_levels(config.level));
  log::set_format(config.format == config::LogFormat::kJson ? log::Format::kJson : log::Format::kText);
  return config.file.empty() ? Result<void>() : log::open_file(config.file);
}

/// Changes when unsynced writes may be lost: with a reboot of the machine, as its boot id shows. A process that ends,
/// even by SIGKILL, loses nothing, since the kernel has everything that it acknowledged. Only a store in its own memory
/// is lost with it.
Incarnation incarnation_of(const config::ServerConfig& server, Random& random) {
  const std::uint64_t boot = boot_id();
  if (boot == 0 || server.trove == config::TroveKind::kMemory) return Incarnation(random.next() | 1U);
  Bytes name;
  Encoder out(name);
  out.u64(boot);
  out.u32(server.id.value);
  return Incarnation(hash64(name) | 1U);
}

/// Writes the file system of the folder to its device, so that a crash after an ordered stop loses nothing.
void sync_device(const std::string& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::syncfs(fd.get()) != 0) {
    SPATE_LOG("assembly", error, "not synced at the stop: {} folder={}", errno_error(errno, "sync"),
              log::Quoted{folder});
  }
}

/// Adds to the error what people can do about an address that this process cannot listen at. The module knows the
/// reason, but not which server the address belongs to.
Error cannot_listen(Error error, const std::string& url, ServerId server) {
  const std::string name = "server " + std::to_string(server.value);
  switch (error.code()) {
    case Errc::kUnreachable:
      return Error::told(error.code(), name + " belongs on another machine: " + url +
                                           " is no address of this one; --server names the server to start here");
    case Errc::kNotFound:
      return Error::told(error.code(), name + " is to listen at " + url +
                                           ", whose folder is not there: make it (`systemctl` "
                                           "does for the unit spated@)");
    case Errc::kPermissionDenied:
      return Error::told(error.code(), name + " is to listen at " + url + ", which is not for user " +
                                           std::to_string(::geteuid()) +
                                           ": let that user write to its folder, or use a port "
                                           "above 1023");
    case Errc::kExists: return std::move(error).within(name + " (is it running already?)");
    default: return std::move(error).within(name);
  }
}

/// Several meta servers send each other every change. On a machine with few processors, or on idle ones, most of the
/// time of a change is that of the wakes in between (bench/results/2026-11-29-ha.md).
Duration busy_poll(const config::FileSystemConfig& config, const config::ServerConfig& self) {
  const bool replicates = self.roles.meta && !config.meta.coordinator.empty();
  return std::max(config.network.server_busy_poll, replicates ? config.meta.busy_poll : Duration(0));
}

}  // namespace

ServerProcess::ServerProcess(config::LoadedConfig loaded, const ServerSettings& settings)
    : config_(std::move(loaded.config)),
      config_text_(std::move(loaded.text)),
      self_(*config_.find_server(settings.server)),
      format_(settings.format || self_.trove == config::TroveKind::kMemory),
      executor_(clock_, {nullptr, busy_poll(config_, self_)}) {}

Result<std::unique_ptr<ServerProcess>> ServerProcess::open(const ServerSettings& settings) {
  SPATE_TRY(auto loaded, config::load_file(settings.config_file, settings.overrides));
  SPATE_TRY(std::ignore, set_up_log(loaded.config.log));
  if (loaded.config.find_server(settings.server) == nullptr) {
    return Error::told(Errc::kNotFound,
                       "there is no server " + std::to_string(settings.server.value) + " in " + settings.config_file);
  }
  std::unique_ptr<ServerProcess> process(new ServerProcess(std::move(loaded), settings));
  SPATE_TRY(std::ignore, process->read_keys());
  if (const std::string& audit = process->config_.log.audit; !audit.empty()) {
    SPATE_TRY(process->audit_, log::LineFile::open(audit));
  }
  SPATE_TRY(process->network_, make_network(process->clock_, process->config_, true));
  process->context_ = std::make_unique<job::NetworkContext>(*process->network_, process->executor_);
  SPATE_TRY(std::ignore, process->listen());  // before the stores, so that a second spated fails here
  // After listen(), so that a module that was loaded for one of the URLs is counted, too.
  process->network_counters_ = std::make_unique<NetworkCounters>(process->metrics_, *process->network_);
  SPATE_TRY(std::ignore, process->open_stores());
  SPATE_TRY(std::ignore, process->open_group());
  SPATE_TRY(std::ignore, process->make_services());
  return process;
}

ServerProcess::~ServerProcess() = default;

Result<void> ServerProcess::read_keys() {
  if (asks_for(config_, self_, config::Auth::kKey)) {
    SPATE_TRY(client_keys_, config::read_keys(config_.fs.client_key_file));
  }
  SPATE_TRY(server_keys_, config::read_keys(config_.fs.server_key_file));
  return {};
}

Result<void> ServerProcess::listen() {
  SPATE_TRY(entrances_, entrances_of(config_, self_));
  for (const std::string& url : self_.urls) {
    auto bound = network_->listen(url, context_->id());
    if (!bound) return cannot_listen(std::move(bound).error(), url, self_.id);
    SPATE_LOG("assembly", info, "listening server={} url={}", self_.id, log::Quoted{*bound});
  }
  return {};
}

/// Refuses to make an empty target if the records expect a copy of mirrored files in it: it would be read as zeros.
Result<void> ServerProcess::check_may_make(const TargetSettings& settings) {
  const bool makes = settings.make && settings.kind != config::TroveKind::kMemory &&
                     trove::read_target_identity(settings.folder).code() == Errc::kNotFound;
  if (!makes) return {};
  SPATE_TRY(const bool counted_on, executor_.run(io::is_counted_on(*records_, settings.target)));
  if (!counted_on) return {};
  return Error::told(Errc::kNotPermitted, settings.folder + " is empty, and mirrored files had a copy there: empty " +
                                              keyval_folder(self_) +
                                              ", too, and all other storage folders of this server. With --format it "
                                              "then receives everything that it held of them");
}

Result<void> ServerProcess::open_stores() {
  if (!self_.roles.meta && !self_.roles.io) return {};
  const std::string keyval = keyval_folder(self_);
  SPATE_TRY(keyval_, open_keyval(self_.trove, keyval, format_));
  SPATE_LOG("assembly", info, "keyval store open folder={}", log::Quoted{keyval});
  const bool on_disk = self_.trove != config::TroveKind::kMemory;
  if (on_disk) space_gauges_.watch("records of server " + std::to_string(self_.id.value), keyval);
  records_ = std::make_unique<job::KeyvalContext>(*keyval_, executor_);
  for (std::size_t i = 0; i < self_.storage.size(); ++i) {
    auto target = std::make_unique<Target>();
    target->id = target_id(self_.id, i);
    TargetSettings settings;
    settings.kind = self_.trove;
    settings.folder = self_.storage[i];
    settings.make = format_;
    settings.fs = config_.fs.id;
    settings.target = target->id;
    settings.memory_bytes = kMemoryTargetBytes;
    SPATE_TRY(std::ignore, check_may_make(settings));
    SPATE_TRY(target->store, open_target(settings));
    target->context = std::make_unique<job::StorageContext>(*target->store, executor_);
    target->device = device_of(self_, i);
    SPATE_LOG("assembly", info, "target open target={} store={} folder={}", target->id, target->store->describe(),
              log::Quoted{self_.storage[i]});
    if (on_disk) space_gauges_.watch("target " + std::to_string(target->id.value), self_.storage[i]);
    targets_.push_back(std::move(target));
  }
  return {};
}

Result<void> ServerProcess::make_services() {
  rpc::ServerOptions options;
  options.fs = config_.fs.id;
  options.server = self_.id;
  options.incarnation = incarnation_of(self_, random_);
  options.entrances = entrances_;
  options.munge_beside_keys = config_.auth.munge;
  options.client_key = client_keys_;
  options.server_key = server_keys_;
  options.allow_version_1 = config_.auth.allow_v1;
  options.protect = protection(config_.auth);
  if (options.allow_version_1) SPATE_LOG("assembly", warn, "auth.allow_v1: peers of older versions are admitted");
  if (self_.roles.meta) options.roles.emplace_back("meta");
  if (self_.roles.io) options.roles.emplace_back("io");
  if (self_.roles.block) options.roles.emplace_back("block");
  options.software = "spate " SPATE_VERSION;
  options.slow_request = config_.log.slow_request;
  options.audit = audit_.get();
  if (config_.auth.munge || asks_for(config_, self_, config::Auth::kMunge)) {
    SPATE_TRY(options.munge, rpc::Munge::open({config_.auth.munge_socket, ::geteuid()}));
  }
  if (group_ != nullptr) options.incarnation = group_->incarnation();
  server_ = std::make_unique<rpc::Server>(options, *context_, random_, metrics_);
  if (group_ != nullptr) {
    server_->add(group_->service());
    server_->set_gate(group_->service());
  } else if (self_.roles.meta) {  // first: its join makes the ticket that the io role checks
    make_meta_role();
    server_->add(meta_->service());
  }
  if (self_.roles.io) make_io_role();
  return {};
}

void ServerProcess::make_meta_role() {
  const RoleSource source{config_, config_text_, self_, server_keys_, format_};
  meta::MetaOptions meta = meta_options(source);
  if (group_ != nullptr) {
    meta.make_store = true;  // the leader has every record that exists: an empty store is new
    meta.used_numbers_patience =
        Duration(0);  // it takes the lead soon, though io servers may be lost with the former one
  }
  io_servers_ = std::make_unique<meta::ChannelIoServers>(io_servers_options(source), *context_, random_);
  meta_ = std::make_unique<meta::MetaRole>(meta, records(), random_, metrics_, *io_servers_);
  meta_->core().revoked_keys().on_change([this](std::set<KeyId> keys) { server_->set_revoked_keys(std::move(keys)); });
  meta_->core().membership().on_change([this](std::uint64_t version) { server_->set_map_version(version); });
}

void ServerProcess::make_io_role() {
  io::IoOptions io = io_options({config_, config_text_, self_, server_keys_, format_});
  std::vector<io::IoTarget> targets;
  for (auto& target : targets_) targets.push_back({target->id, *target->context, target->device});
  io_ = std::make_unique<io::IoService>(io, std::move(targets), records(), *context_, metrics_);
  server_->add(*io_);
}

Result<void> ServerProcess::open_group() {
  const std::size_t metas = static_cast<std::size_t>(
      std::ranges::count_if(config_.servers, [](const config::ServerConfig& server) { return server.roles.meta; }));
  if (!self_.roles.meta || metas < 2) return {};
  records_.reset();  // the group has its own context, and only one context may use a store
  MetaGroupOptions options;
  options.fs = config_.fs.id;
  options.self = self_.id;
  for (const config::ServerConfig& server : config_.servers) {
    if (server.roles.meta) options.members.push_back({server.id, server.urls});
  }
  options.boot = self_.trove == config::TroveKind::kMemory || boot_id() == 0 ? random_.next() | 1U : boot_id();
  options.server_key = server_keys_.used;
  options.min_copies = config_.meta.min_copies;
  options.handshake = handshake_policy(config_);
  SPATE_TRY(auto coordinator, make_coordinator(config_, executor_));
  group_ =
      std::make_unique<MetaGroup>(std::move(options), std::move(coordinator), *keyval_, *context_, random_, metrics_);
  return {};
}

/// The group has chosen this member: from now on it is the meta server.
job::Task<Result<void>> ServerProcess::lead() {
  make_meta_role();
  server_->set_incarnation(group_->incarnation());
  SPATE_CO_TRY(std::ignore, co_await meta_->start());
  server_->add(meta_->service());
  co_return Result<void>();
}

/// Registers the io role at the meta server, which may be this process or another one, and need not run yet.
void ServerProcess::register_io() {
  const ClusterMap map = config::cluster_map(config_);
  io::RegistrationOptions options;
  options.self = *map.find_server(self_.id);
  options.meta = map.meta_server();
  options.server_key = server_keys_.used;
  options.handshake = handshake_policy(config_);
  io_->register_at(std::move(options), random_);
}

job::Task<Result<void>> ServerProcess::start() {
  if (group_ != nullptr) {
    MetaGroup::Actions actions;
    actions.lead = [this] { return lead(); };
    actions.ended = [this] {
      restart_ = true;
      executor_.request_exit();
    };
    auto started = co_await group_->start(std::move(actions));
    if (!started) co_return std::move(started).error().within(keyval_folder(self_));
  }
  if (meta_ != nullptr) {
    auto started = co_await meta_->start();
    if (!started) co_return std::move(started).error().within(keyval_folder(self_));
  }
  if (io_ != nullptr) {
    auto opened = co_await io_->open(format_);
    if (!opened) co_return std::move(opened).error().within(keyval_folder(self_));
    io_->start();
    register_io();
  }
  server_->start();
  co_return Result<void>();
}

job::Task<Result<void>> ServerProcess::stop() {
  if (io_ != nullptr) co_await io_->hand_over();
  if (group_ != nullptr) co_await group_->hand_over();
  if (io_ != nullptr) io_->leave_groups();
  co_await server_->stop();
  if (io_ != nullptr) {
    co_await io_->stop();
    if (self_.trove != config::TroveKind::kMemory) {
      for (const std::string& folder : self_.storage) sync_device(folder);
    }
  }
  Result<void> ended;
  if (meta_ != nullptr) ended = co_await meta_->stop();
  if (group_ == nullptr) co_return ended;
  co_await group_->stop();
  co_return Result<void>();  // a failure does no harm: the next leader writes what is missing
}

void ServerProcess::trim_memory() {
  executor_.post([this] {
    if (keyval_ != nullptr) keyval_->trim_memory();
  });
}

Result<void> ServerProcess::run(const std::function<void()>& serving) {
  auto started = executor_.run(start());
  if (!started) {
    std::ignore = executor_.run(stop());  // stops the parts that have started
    return started;
  }
  SPATE_LOG("assembly", info, "serving server={} fs={:016x}", self_.id, config_.fs.id.value);
  if (serving) serving();
  executor_.run();
  SPATE_LOG("assembly", info, "stopping server={}", self_.id);
  return executor_.run(stop());
}

}  // namespace spate::assembly
