// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/server_machine.h"

#include "server/io/registration.h"

namespace spate::cluster {
namespace {

constexpr std::size_t kSmallBuffers = 16ULL << 20U;
constexpr Duration kRecallDeadline = std::chrono::milliseconds(400);

bmi::UnauthenticatedPeerLimits limits_for_unauthenticated_peers(Plant plant) {
  bmi::UnauthenticatedPeerLimits limits = unauthenticated_limits();
  if (plant == Plant::kEndlessStrangers) {
    limits.deadline_ms = 0;  // so none of the limits applies
    limits.most = UINT32_MAX;
  }
  return limits;
}

}  // namespace

ServerProcess::ServerProcess(Ether ether, ServerDisks& disks, const ServerSettings& settings, ServerEntry entry,
                             std::uint64_t seed)
    : Process(ether, entry.id.value, seed, limits_for_unauthenticated_peers(settings.plant)),
      settings_(settings),
      entry_(std::move(entry)),
      disks_(disks),
      incarnation_(random_.next() | 1U),
      gate_(executor_),
      started_(executor_) {
  for (const std::string& url : entry_.urls) SPATE_CHECK(network_->listen(url, context_->id()).has_value());
  open_stores();
  rpc::ServerOptions options;
  options.fs = settings.map.fs;
  options.server = entry_.id;
  options.incarnation = incarnation_;
  options.client_key = settings.client_key;
  options.server_key = settings.server_key;
  options.features = settings.features;
  options.max_requests = settings.max_requests;
  if (group_ != nullptr) options.roles = {"meta"};
  server_ = std::make_unique<rpc::Server>(std::move(options), *context_, random_, metrics_);
  if (group_ != nullptr) {
    server_->add(group_->service());
    server_->set_gate(group_->service());
  } else if (entry_.roles.meta) {
    make_meta();
  }
  if (entry_.roles.io) make_io();
  job::spawn(gate_, start());
}

ServerProcess::~ServerProcess() = default;

void ServerProcess::open_stores() {
  keyval_ = std::make_unique<trove::SimKeyval>(disks_.records, ether_.clock, random_, store_options(settings_.plant));
  planted_keyval_ = plant_in_keyval(settings_.plant, *keyval_);
  trove::Keyval* store = keyval_.get();
  if (planted_keyval_ != nullptr) store = planted_keyval_.get();
  if (entry_.roles.meta && settings_.coordination != nullptr) {
    open_group(*store);
  } else {
    records_ = std::make_unique<job::KeyvalContext>(*store, executor_);
  }
  for (auto& disk : disks_.targets) {
    Target target;
    target.mortal = std::make_unique<MortalBytestreams>(std::make_unique<trove::SimBytestreams>(*disk));
    target.planted = plant_in_bytestreams(settings_.plant, *target.mortal);
    trove::Bytestreams* streams = target.mortal.get();
    if (target.planted != nullptr) streams = target.planted.get();
    target.context = std::make_unique<job::StorageContext>(*streams, executor_);
    targets_.push_back(std::move(target));
  }
}

void ServerProcess::open_group(trove::Keyval& store) {
  assembly::MetaGroupOptions options;
  options.fs = settings_.map.fs;
  options.self = entry_.id;
  for (const ServerEntry& server : settings_.map.servers) {
    if (server.roles.meta) options.members.push_back({server.id, server.urls});
  }
  options.boot = disks_.boot;
  options.min_copies = settings_.meta_min_copies;
  options.server_key = settings_.server_key;
  auto coordinator = std::make_unique<coord::SimCoordinator>(*settings_.coordination, executor_, entry_.id.value);
  group_ = std::make_unique<assembly::MetaGroup>(std::move(options), std::move(coordinator), store, *context_, random_,
                                                 metrics_);
}

job::Task<Result<void>> ServerProcess::lead() {
  make_meta();
  server_->set_incarnation(group_->incarnation());
  SPATE_CO_TRY(std::ignore, co_await meta_->start());
  server_->add(*wrapped_.back());
  leads_ = true;
  co_return Result<void>();
}

job::Task<void> ServerProcess::start_group() {
  assembly::MetaGroup::Actions actions;
  actions.lead = [this] { return lead(); };
  actions.ended = [this] {
    restart_ = true;
    leads_ = false;
  };
  const auto started = co_await group_->start(std::move(actions));
  if (!started) failed_ = true;
}

job::Task<void> ServerProcess::hand_over() {
  if (io_ != nullptr) co_await io_->hand_over();
  if (group_ != nullptr) co_await group_->hand_over();
  restart_ = group_ != nullptr;
  handed_over_ = true;
}

void ServerProcess::make_meta() {
  meta::MetaOptions options;
  options.fs = settings_.map.fs;
  options.server = entry_.id;
  options.server_key = settings_.server_key;
  options.map = settings_.map;
  options.strip_bytes = settings_.strip_bytes;
  options.replicas = settings_.replicas;
  options.min_copies = settings_.min_copies;
  options.sync = settings_.meta_sync;
  options.session_lease = settings_.session_lease;
  options.capability_life = settings_.capability_life;
  meta::IoServersOptions io_servers;
  io_servers.map = settings_.map;
  io_servers.server_key = settings_.server_key;
  io_servers.description = "meta server";
  const auto make = [&] { return std::make_unique<meta::ChannelIoServers>(io_servers, *context_, random_); };
  io_servers_ = make();
  planted_io_servers_ = plant_in_io_servers(settings_.plant, *io_servers_, make);
  meta::IoServers* io = io_servers_.get();
  if (planted_io_servers_ != nullptr) io = planted_io_servers_.get();
  meta_ = std::make_unique<meta::MetaRole>(std::move(options), records(), random_, metrics_, *io);
  meta_->core().membership().on_change([this](std::uint64_t version) { server_->set_map_version(version); });
  meta::MetaParts& parts = meta_->core().parts();
  planted_leases_ = plant_in_leases(settings_.plant, *parts.leases);
  if (planted_leases_ != nullptr) parts.leases = planted_leases_.get();
  rpc::Service* service = &meta_->service();
  if (auto planted = plant_in_meta_service(settings_.plant, *service, executor_)) {
    wrapped_.push_back(std::move(planted));
    service = wrapped_.back().get();
  }
  wrapped_.push_back(watched(*settings_.watch, entry_.id, *service));
  if (group_ == nullptr) server_->add(*wrapped_.back());
}

void ServerProcess::make_io() {
  io::IoOptions options;
  options.fs = settings_.map.fs;
  options.server_key = settings_.server_key;
  options.boot = disks_.boot;
  options.learn_fences = true;
  options.groups = settings_.replicas > 1;
  options.rebuild_rate = settings_.rebuild_rate;
  options.rebuild_after = settings_.rebuild_after;
  options.buffer_bytes = kSmallBuffers;
  options.stall_timeout = std::chrono::seconds(2);
  options.policy = settings_.policy;
  options.bypass = settings_.bypass;
  options.recall_deadline = kRecallDeadline;
  options.contended_for = std::chrono::milliseconds(20);
  std::vector<io::IoTarget> targets;
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    targets.push_back({entry_.targets[i], *targets_[i].context, entry_.id.value});
  }
  io_ = std::make_unique<io::IoService>(options, std::move(targets), *records_, *context_, metrics_);
  rpc::Service* service = io_.get();
  if (auto planted = plant_in_io_service(settings_.plant, *service, executor_, gate_)) {
    wrapped_.push_back(std::move(planted));
    service = wrapped_.back().get();
  }
  wrapped_.push_back(watched(*settings_.watch, entry_.id, *service));
  server_->add(*wrapped_.back());
}

job::Task<void> ServerProcess::start() {
  if (group_ != nullptr) {
    co_await start_group();
  } else if (meta_ != nullptr) {
    const auto started = co_await meta_->start();
    if (!started) failed_ = true;
    leads_ = true;
  }
  if (!failed_ && alive_ && io_ != nullptr) {
    const auto opened = co_await io_->open(!disks_.formatted);
    disks_.formatted = disks_.formatted || opened;
    if (!opened) failed_ = true;
  }
  if (!failed_ && alive_) {
    if (io_ != nullptr) {
      io_->start();
      io_->register_at({entry_, settings_.map.meta_server(), settings_.server_key, {}}, random_);
    }
    server_->start();
    serving_ = true;
  }
  started_.set();
}

void ServerProcess::die() {
  if (!alive_) return;
  alive_ = false;
  serving_ = false;
  keyval_->kill();
  for (Target& target : targets_) target.mortal->die();
  job::spawn(gate_, stop());
}

job::Task<void> ServerProcess::stop() {
  std::ignore = co_await started_.wait();
  // Stop it first: a dead process must send no more requests to the coordinator while its calls end.
  if (group_ != nullptr) co_await group_->stop();
  if (io_ != nullptr) io_->leave_groups();
  co_await server_->stop();
  if (io_ != nullptr) co_await io_->stop();
  if (meta_ != nullptr) std::ignore = co_await meta_->stop();
  ended_ = true;
}

}  // namespace spate::cluster
