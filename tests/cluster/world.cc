// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/world.h"

#include <algorithm>

#include "group/record.h"

namespace spate::cluster {
namespace {

constexpr std::uint32_t kDirectAlignment = 512;
/// The number of the second meta server. Further ones follow.
constexpr std::uint32_t kFurtherMetas = 51;

Key key_of(std::uint8_t byte) {
  Key key;
  key.fill(static_cast<std::byte>(byte));
  return key;
}

}  // namespace

World::World(const WorldOptions& options)
    : random_(options.seed),
      fabric_(clock_, random_, options.fabric),
      connect_(options.connect),
      watch_(clock_),
      coordination_(clock_, random_) {
  SPATE_CHECK(planted(Defect::kNone));  // only one world at a time
  planted_defect = defect_of(options.plant);
  settings_.map = make_map(options);
  settings_.client_key = key_of(9);
  settings_.server_key = key_of(7);
  settings_.meta_sync = options.meta_sync;
  settings_.session_lease = options.session_lease;
  settings_.capability_life = options.capability_life;
  settings_.plant = options.plant;
  settings_.max_requests = options.max_requests;
  settings_.features = options.features;
  settings_.replicas = options.replicas;
  settings_.min_copies = options.min_copies;
  settings_.meta_min_copies = options.meta_min_copies;
  settings_.rebuild_rate = options.rebuild_rate;
  settings_.rebuild_after = options.rebuild_after;
  settings_.bypass = options.bypass;
  if (options.direct) {
    settings_.policy.direct_from_bytes = kDirectAlignment;
    settings_.policy.direct_piece_bytes = kDirectAlignment;
  }
  settings_.watch = &watch_;
  if (options.meta_servers > 1) settings_.coordination = &coordination_;
  fabric_.hosts().set_file_reader([this](std::uint32_t node, int fd, std::uint64_t offset, MutableByteView out) {
    return read_file(node, fd, offset, out);
  });
  if (options.bypass != io::BypassPolicy::kOff) {
    fabric_.hosts().set_descriptor_copier([this](std::uint32_t /*node*/, int fd) -> Result<int> {
      trove::SimDisk* const disk = disk_of(fd);
      if (disk == nullptr) return Errc::kBadDescriptor;
      return disk->lending().pass(fd);
    });
  }
  for (const ServerEntry& entry : settings_.map.servers) make_machine(entry, options);
  for (const ServerEntry& entry : settings_.map.servers) start_server(entry.id);
}

World::~World() {
  actions_.clear();  // their owners may be gone
  watch_.on_arrival({});
  for (const ServerId id : servers()) {
    if (server(id) != nullptr) kill_server(id, bmi::sim::Death::kProcess);
  }
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (!processes_[i]->alive()) continue;
    fabric_.kill_node(processes_[i]->node());
    processes_[i]->die();
  }
  const MonoTime limit = now() + std::chrono::hours(1);
  while (!processes_.empty()) {
    const bool more = turn(limit);
    SPATE_CHECK(more || processes_.empty());  // otherwise a process hangs
  }
  planted_defect = Defect::kNone;
}

ClusterMap World::make_map(const WorldOptions& options) const {
  ClusterMap map;
  map.fs = FsId(0xF5);
  map.servers.push_back({kMetaServer, urls_of(kMetaServer.value), {true, false}, {}});
  for (std::uint32_t i = 0; i < options.io_servers; ++i) {
    const ServerId id(2 + i);
    ServerEntry entry{id, urls_of(id.value), {false, true}, {target_id(id, 0)}};
    if (i < options.doubled) entry.targets.push_back(target_id(id, 1));
    map.servers.push_back(std::move(entry));
  }
  for (std::uint32_t i = 1; i < options.meta_servers; ++i) {
    const ServerId id(kFurtherMetas + i - 1);
    map.servers.push_back({id, urls_of(id.value), {true, false}, {}});
  }
  return map;
}

void World::make_machine(const ServerEntry& entry, const WorldOptions& options) {
  machines_[entry.id] = {entry, make_disks(entry, options), nullptr, false};
}

std::unique_ptr<ServerDisks> World::make_disks(const ServerEntry& entry, const WorldOptions& options) {
  auto disks = std::make_unique<ServerDisks>();
  trove::SimDiskModel model;
  model.capacity_bytes = options.disk_bytes;
  model.sync_latency = options.sync_latency;
  model.jitter = std::chrono::microseconds(50);
  if (options.direct) {
    model.direct_alignment = kDirectAlignment;
    model.write_latency = std::chrono::milliseconds(2);  // so that other requests come during a write of blocks
  }
  for (std::size_t i = 0; i < entry.targets.size(); ++i) {
    disks->targets.push_back(std::make_unique<trove::SimDisk>(clock_, random_, ++disks_made_, model));
  }
  return disks;
}

std::vector<ServerId> World::servers() const {
  std::vector<ServerId> ids;
  for (const auto& [id, machine] : machines_) ids.push_back(id);
  return ids;
}

std::vector<ServerId> World::meta_servers() const {
  std::vector<ServerId> ids;
  for (const auto& [id, machine] : machines_) {
    if (machine.entry.roles.meta) ids.push_back(id);
  }
  return ids;
}

ServerId World::leader() {
  for (const ServerId id : meta_servers()) {
    if (server(id) != nullptr && server(id)->leads()) leader_ = id;
  }
  return leader_;
}

bool World::is_whole() {
  const auto metas = meta_servers();
  if (metas.size() > 1 && !all_serve()) return false;
  const auto holds_all = [&](ServerId id) {
    ServerProcess* const process = server(id);
    if (process == nullptr || !process->serving()) return false;
    const std::string part = metas.size() == 1 ? "leads" : process->group()->service().part();
    return process->leads() ? part.starts_with("leads") : part == "backup";
  };
  const ServerProcess* const first = server(leader());
  return first != nullptr && first->leads() && std::all_of(metas.begin(), metas.end(), holds_all);
}

/// Whether the coordinator's record says so of all meta servers, and the server that it names leads. A server that it
/// no longer names may still believe that it leads.
bool World::all_serve() {
  const coord::Snapshot seen = coordination_.read(group::record_key(0));
  if (seen.records.empty()) return false;
  const auto record = group::decode_group_record(seen.records.front().value);
  return record && record->serving() == meta_servers().size() && record->primary == leader();
}

/// Restarts members that have resigned, as the daemon's first process does.
void World::restart_the_resigned() {
  if (settings_.coordination == nullptr) return;
  for (const ServerId id : meta_servers()) {
    if (server(id) == nullptr || !server(id)->is_to_restart() || paused(id)) continue;
    kill_server(id, bmi::sim::Death::kProcess);
    start_server(id);
  }
}

ServerProcess* World::server(ServerId id) { return machines_.at(id).running; }

void World::start_server(ServerId id) {
  Machine& machine = machines_.at(id);
  SPATE_CHECK(machine.running == nullptr);
  auto process = std::make_unique<ServerProcess>(ether(), *machine.disks, settings_, machine.entry, random_.next());
  machine.running = process.get();
  processes_.push_back(std::move(process));
}

ServerId World::add_io_server(const WorldOptions& options) {
  const ServerId id(machines_.rbegin()->first.value + 1);
  make_machine({id, urls_of(id.value), {false, true}, {target_id(id, 0)}}, options);
  start_server(id);
  return id;
}

void World::replace_disks(ServerId id, const WorldOptions& options) {
  Machine& machine = machines_.at(id);
  SPATE_CHECK(machine.running == nullptr);
  replaced_disks_.push_back(std::exchange(machine.disks, make_disks(machine.entry, options)));
}

void World::kill_server(ServerId id, bmi::sim::Death death) {
  Machine& machine = machines_.at(id);
  fabric_.kill_node(id.value, death);
  machine.running->die();
  machine.running = nullptr;
  machine.paused = false;
  if (death == bmi::sim::Death::kProcess) return;
  ++machine.disks->boot;
  for (auto& disk : machine.disks->targets) disk->crash();
  machine.disks->records.crash_machine(random_);
}

ClientProcess& World::start_client() { return start_client(small_client_options({}, {}, {})); }

ClientProcess& World::start_client(client::Options options) {
  const std::uint32_t node = next_client_node_++;
  options.map = settings_.map;
  if (!options.client_key || !options.client_key->is_users()) options.client_key = settings_.client_key;
  options.description = "client " + std::to_string(node);
  auto process = std::make_unique<ClientProcess>(ether(), node, random_.next(), std::move(options), lease_machine());
  ClientProcess& client = *process;
  processes_.push_back(std::move(process));
  return client;
}

ClientProcess& World::start_client_beside(ServerId server, client::Options options) {
  fabric_.hosts().put_on_machine_of(next_client_node_, server.value);
  beside_[next_client_node_] = server;
  return start_client(std::move(options));
}

std::optional<ServerId> World::server_beside(std::uint32_t node) const {
  const auto found = beside_.find(node);
  return found == beside_.end() ? std::nullopt : std::optional(found->second);
}

trove::SimDisk* World::disk_of(int fd) {
  for (const auto& [id, machine] : machines_) {
    for (const auto& disk : machine.disks->targets) {
      if (disk->owns(fd)) return disk.get();
    }
  }
  return nullptr;
}

LeaseMachine World::lease_machine() {
  LeaseMachine machine;
  machine.disk_of = [this](int fd) { return disk_of(fd); };
  machine.later = [this](Duration span, UniqueFunction<void()> action) { at(now() + span, std::move(action)); };
  machine.moved = [this](std::uint64_t bytes) { bypassed_bytes_ += bytes; };
  return machine;
}

void World::kill_client(ClientProcess& client, bmi::sim::Death death) {
  fabric_.kill_node(client.node(), death);
  client.die();
}

ClientProcess* World::client(std::uint32_t node) {
  for (const auto& process : processes_) {
    if (process->node() == node && process->alive() && !process->ended())
      return dynamic_cast<ClientProcess*>(process.get());
  }
  return nullptr;
}

bool World::step_all() {
  bool did = false;
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (!is_paused(*processes_[i])) did |= processes_[i]->executor().step();
  }
  return did;
}

bool World::is_paused(const Process& process) const {
  const auto machine = machines_.find(ServerId(process.node()));
  return machine != machines_.end() && machine->second.paused && machine->second.running == &process;
}

void World::bury_the_ended() {
  std::erase_if(processes_, [](const auto& process) { return process->ended(); });
}

MonoTime World::next_event_time() {
  MonoTime next = fabric_.next_event_time();
  if (!actions_.empty()) next = std::min(next, actions_.begin()->first);
  for (const auto& process : processes_) {
    if (is_paused(*process)) continue;
    next = std::min({next, process->executor().next_timer(), process->next_event_time()});
  }
  for (const auto& [id, machine] : machines_) {
    for (const auto& disk : machine.disks->targets) next = std::min(next, disk->next_event_time());
  }
  return next;
}

void World::advance_to(MonoTime when) {
  fabric_.run_until(when);
  for (const auto& [id, machine] : machines_) {
    for (const auto& disk : machine.disks->targets) disk->run_until(when);
  }
  for (const auto& process : processes_) {
    if (!is_paused(*process)) process->run_until(when);
  }
}

bool World::act() {
  if (actions_.empty() || actions_.begin()->first > now()) return false;
  UniqueFunction<void()> action = std::move(actions_.begin()->second);
  actions_.erase(actions_.begin());
  action();
  return true;
}

bool World::turn(MonoTime limit) {
  if (act() || step_all()) return true;
  bury_the_ended();
  restart_the_resigned();
  const MonoTime next = next_event_time();
  if (next > limit) {
    if (limit > now()) clock_.set(limit);
    return false;
  }
  if (fabric_.next_event_time() <= next) {
    SPATE_CHECK(fabric_.deliver_next());
  } else {
    advance_to(next);
  }
  return true;
}

void World::run_for(Duration span) {
  const MonoTime limit = now() + span;
  while (turn(limit)) {
  }
}

Result<std::size_t> World::read_file(std::uint32_t node, int fd, std::uint64_t offset, MutableByteView out) {
  const auto machine = machines_.find(ServerId(node));
  SPATE_CHECK(machine != machines_.end());
  for (const auto& disk : machine->second.disks->targets) {
    if (disk->owns(fd)) return disk->read_file(fd, offset, out);
  }
  return Errc::kBadDescriptor;
}

}  // namespace spate::cluster
