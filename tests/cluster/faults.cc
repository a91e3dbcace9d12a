// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/faults.h"

#include <fmt/format.h>

#include <algorithm>

namespace spate::cluster {
namespace {

using bmi::sim::Death;

constexpr std::uint64_t kPlannedMost = 12;
/// The greatest delay between the arrival of a request and the fault that is aimed at it, ns.
constexpr std::uint64_t kAimNs = 150'000;

bool of_network(FaultKind kind) { return kind <= FaultKind::kStalledPath; }

}  // namespace

FaultDriver::FaultDriver(Scene& scene, ClientRoster& clients, std::uint64_t seed)
    : scene_(scene), clients_(clients), random_(seed) {
  scene_.world.watch().on_arrival([this](const WatchedRequest& request) { arrived(request); });
}

void FaultDriver::plan(std::uint64_t operations, const std::vector<Aim>& aims) {
  for (const Aim& aim : aims) armed_.push_back({operations, aim.kind, aim.op, aim.nth, true});
  const auto& cells = Coverage::cells();
  const std::uint64_t count = 6 + random_.below(kPlannedMost - 6);
  for (std::uint64_t i = 0; i < count; ++i) {
    Planned planned;
    planned.operations_left = 1 + random_.below(operations);
    const auto& [kind, op] = cells[random_.below(cells.size())];
    planned.kind = i == 0 ? FaultKind::kKilledServer : i == 1 ? FaultKind::kCrashedServer : kind;
    // The first two have no aim, so that they certainly strike.
    if (i >= 2 && random_.chance(4, 5)) planned.aim = op;
    if (i == 2 && random_.chance(1, 2)) {
      planned.kind = FaultKind::kFailedSync;
      planned.aim = wire::Op::kDatafileFlush;
    }
    planned_.push_back(planned);
  }
  std::sort(planned_.begin(), planned_.end(),
            [](const Planned& a, const Planned& b) { return a.operations_left < b.operations_left; });
}

void FaultDriver::run(std::uint64_t operations_left) {
  mind_servers();
  note_durable();
  while (!planned_.empty() && planned_.back().operations_left >= operations_left) {
    const Planned next = planned_.back();
    planned_.pop_back();
    if (next.aim) {
      armed_.push_back(next);
    } else if (const auto target = any_target()) {
      strike(next.kind, *target);
    } else {
      armed_.push_back(next);
    }
  }
}

void FaultDriver::arrived(const WatchedRequest& request) {
  for (const InForce& fault : in_force_) {
    if (concerns(fault.kind, fault.target, request)) coverage_.note(fault.kind, request.op);
  }
  for (std::size_t i = 0; i < armed_.size(); ++i) {
    const Planned planned = armed_[i];
    if (planned.aim && *planned.aim != request.op) continue;
    const bool client_dies = planned.kind == FaultKind::kKilledClient || planned.kind == FaultKind::kCrashedClient;
    const auto target = target_of(request);
    if (!target || (client_dies && target->client == nullptr)) continue;
    if (--armed_[i].nth > 0) continue;
    armed_.erase(armed_.begin() + static_cast<std::ptrdiff_t>(i));
    const Duration delay = planned.at_once || random_.chance(1, 2) ? Duration(0) : Duration(random_.below(kAimNs));
    scene_.world.at(scene_.world.now() + delay,
                    [this, kind = planned.kind, target = *target] { strike(kind, target); });
    return;
  }
}

Workload* FaultDriver::workload_of(ClientId client) {
  if (!client) return nullptr;
  for (Workload* workload : clients_.alive()) {
    if (workload->session() == client) return workload;
  }
  return nullptr;
}

std::optional<FaultDriver::Target> FaultDriver::target_of(const WatchedRequest& request) {
  Target target{request.server, workload_of(request.client), kMetaServer.value};
  if (target.client != nullptr) {
    target.other_node = target.client->process().node();
    return target;
  }
  if (request.client || request.server == kMetaServer) return std::nullopt;  // a client that is ending its session
  return target;
}

std::optional<FaultDriver::Target> FaultDriver::any_target() {
  const auto servers = scene_.world.servers();
  const auto clients = clients_.at_work();
  if (clients.empty()) return std::nullopt;
  Target target;
  target.server = servers[random_.below(servers.size())];
  target.client = clients[random_.below(clients.size())];
  target.other_node = target.client->process().node();
  return target;
}

bool FaultDriver::concerns(FaultKind kind, const Target& target, const WatchedRequest& request) {
  if (kind == FaultKind::kStalledPath) return true;
  const bool client_dies = kind == FaultKind::kKilledClient || kind == FaultKind::kCrashedClient;
  const bool same_server = request.server == target.server;
  if (kind == FaultKind::kStuckHolder) {
    ClientProcess* const holder = scene_.world.client(target.other_node);
    return same_server && holder != nullptr && holder->leased().writing() > 0;
  }
  if (!of_network(kind) && !client_dies) return same_server;
  const ClientId client = target.client == nullptr ? ClientId() : target.client->session();
  return request.client == client && (same_server || client_dies);
}

void FaultDriver::count_under_way(FaultKind kind, const Target& target) {
  for (const WatchedRequest& request : scene_.world.watch().under_way()) {
    if (concerns(kind, target, request)) coverage_.note(kind, request.op);
  }
}

void FaultDriver::strike(FaultKind kind, Target target) {
  if (target.client != nullptr) {
    const auto clients = clients_.alive();  // the client may have ended since
    if (std::find(clients.begin(), clients.end(), target.client) == clients.end()) return;
  }
  scene_.journal.note(fmt::format("FAULT {} server={} other={}", name(kind), target.server.value, target.other_node));
  count_under_way(kind, target);
  scene_.disturbances.at(scene_.world.now());
  switch (kind) {
    case FaultKind::kKilledServer: return strike_server(target.server, Death::kProcess);
    case FaultKind::kCrashedServer: return strike_server(target.server, Death::kMachine);
    case FaultKind::kKilledClient:
    case FaultKind::kCrashedClient:
      if (target.client == nullptr) return;
      return strike_client(*target.client, kind == FaultKind::kKilledClient ? Death::kProcess : Death::kMachine);
    case FaultKind::kStuckHolder: return strike_holder(target);
    case FaultKind::kFailedSync: return fail_syncs(target);
    case FaultKind::kDiskFull:
    case FaultKind::kIoError: return strike_storage(kind, target);
    default: return strike_network(kind, target);
  }
}

Duration FaultDriver::some_span() {
  static constexpr std::array<std::int64_t, 5> kMost = {5, 50, 400, 3000, 12000};  // ms
  return Duration(static_cast<std::int64_t>(
      1 + random_.below(static_cast<std::uint64_t>(kMost.at(random_.below(kMost.size())) * 1'000'000))));
}

void FaultDriver::keep_in_force(FaultKind kind, const Target& target, Duration span, UniqueFunction<void()> mend_it) {
  const std::uint64_t number = ++last_fault_;
  in_force_.push_back({kind, target, std::move(mend_it), number});
  scene_.disturbances.begin();
  scene_.world.at(scene_.world.now() + span, [this, number] {
    const auto is_it = [number](const InForce& fault) { return fault.number == number; };
    const auto place = std::find_if(in_force_.begin(), in_force_.end(), is_it);
    if (place != in_force_.end()) mend(place);  // otherwise mend_all() has mended it
  });
}

void FaultDriver::mend(InForcePlace place) {
  scene_.journal.note(fmt::format("MENDED {} server={}", name(place->kind), place->target.server.value));
  UniqueFunction<void()> mend_it = std::move(place->mend);
  in_force_.erase(place);
  mend_it();
  scene_.disturbances.end(scene_.world.now());
}

void FaultDriver::strike_network(FaultKind kind, const Target& target) {
  bmi::sim::Fabric& fabric = scene_.world.fabric();
  const std::uint32_t a = target.server.value;
  const std::uint32_t b = target.other_node;
  bmi::sim::LinkOptions link;
  switch (kind) {
    case FaultKind::kDropConnection: fabric.drop_connection(a, b); return;
    case FaultKind::kStalledPath:
      fabric.links().stall(0, true);
      return keep_in_force(kind, target, some_span(), [&fabric] { fabric.links().stall(0, false); });
    case FaultKind::kPartition: {
      const std::uint64_t direction = random_.below(4);
      if (direction != 0) fabric.links().partition_one_way(a, b, true);
      if (direction != 1) fabric.links().partition_one_way(b, a, true);
      return keep_in_force(kind, target, some_span(), [&fabric, a, b] { fabric.links().partition(a, b, false); });
    }
    case FaultKind::kReorder: link.jitter = std::chrono::milliseconds(1 + random_.below(10)); break;
    default:
      link.latency = std::chrono::milliseconds(1 + random_.below(20));
      link.slow_per_mille = 200;
      link.slow = std::chrono::milliseconds(1 + random_.below(500));
  }
  fabric.links().set_link(a, b, link);
  keep_in_force(kind, target, some_span(),
                [this, a, b] { scene_.world.fabric().links().set_link(a, b, scene_.usual_link); });
}

void FaultDriver::note_crash_of(ServerId server) {
  if (server != kMetaServer) {
    scene_.data.crashed(server);
    scene_.appends.crashed();
    return;
  }
  scene_.opens_lost = true;
  scene_.meta_crashed_at = scene_.world.now();
  const auto left = read_store(scene_.world.disks(server).records);
  if (!left) return scene_.fail("the meta server's records cannot be read after the crash");
  if (!scene_.made && left->empty()) return;  // the next start makes the file system
  std::vector<std::uint64_t> handles = scene_.data.handles();
  const std::vector<std::uint64_t> logs = scene_.appends.handles();
  handles.insert(handles.end(), logs.begin(), logs.end());
  handles.insert(handles.end(), scene_.scratch.begin(), scene_.scratch.end());
  for (const std::uint64_t handle : handles) {
    const bool unnamed = std::find(left->unnamed.begin(), left->unnamed.end(), handle) != left->unnamed.end();
    if (!left->nodes.contains(handle) && !unnamed) forgotten_.insert(handle);
  }
  if (!scene_.history.lost(*left, scene_.world.now())) {
    scene_.fail("after a crash of the meta server's machine, " + scene_.history.explain());
  }
}

/// A crash of the client's machine is a crash of the io server on it, if that server is up.
void FaultDriver::strike_client(Workload& client, Death death) {
  const std::optional<ServerId> beside = scene_.world.server_beside(client.node());
  if (!beside) return clients_.kill(client, death);
  if (death == Death::kMachine && !down_.contains(*beside)) return strike_server(*beside, death);
  clients_.kill(client, Death::kProcess);
}

void FaultDriver::strike_holder(Target target) {
  const auto is_beside = [&](const Workload* client) {
    return client != nullptr && scene_.world.server_beside(client->node()) == target.server;
  };
  if (!is_beside(target.client)) {
    const auto clients = clients_.alive();
    const auto found = std::find_if(clients.begin(), clients.end(), is_beside);
    if (found == clients.end()) return;
    target.client = *found;
    target.other_node = target.client->node();
  }
  target.client->process().leased().stick(true);
  // Long enough for a write to begin and to get stuck.
  const Duration span = some_span() + std::chrono::milliseconds(500);
  keep_in_force(FaultKind::kStuckHolder, target, span, [this, node = target.other_node] {
    ClientProcess* const holder = scene_.world.client(node);
    if (holder == nullptr) return;
    if (holder->leased().writing() > 0 && random_.chance(2, 3)) return kill_stuck(node);
    holder->leased().stick(false);
  });
}

/// The stuck client is killed, as an impatient user would do it. Its write ends later.
void FaultDriver::kill_stuck(std::uint32_t node) {
  for (Workload* client : clients_.alive()) {
    if (client->node() != node) continue;
    scene_.journal.note(fmt::format("c{} is killed, stuck", client->index()));
    scene_.late = client->late_write(scene_.world.now() + std::chrono::seconds(15));
    return clients_.kill(*client, Death::kProcess);
  }
}

void FaultDriver::restart_meta() {
  if (!ending_) strike_server(kMetaServer, Death::kProcess, std::chrono::milliseconds(20));
}

void FaultDriver::strike_server(ServerId server, Death death, Duration span) {
  if (down_.contains(server)) return;
  for (Workload* client : clients_.alive()) {
    if (death == Death::kMachine && scene_.world.server_beside(client->node()) == server) clients_.kill(*client, death);
  }
  ++crashes_;
  if (server == kMetaServer) scene_.made = scene_.made || scene_.world.server(server)->serving();
  scene_.world.kill_server(server, death);
  down_.insert(server);
  if (server != kMetaServer) scene_.io_server_died = true;
  if (server == kMetaServer) meta_healthy_ = false;
  if (death == Death::kMachine) note_crash_of(server);
  const FaultKind kind = death == Death::kMachine ? FaultKind::kCrashedServer : FaultKind::kKilledServer;
  keep_in_force(kind, {server, nullptr, 0}, span, [this, server, death] {
    restart(server);
    if (death == Death::kProcess && !ending_ && random_.chance(1, 4)) crash_soon(server);
  });
}

/// Kills the server or crashes its machine after `span`. After a restart it tests that the new process calls nothing
/// durable that the killed one had not synced. After a failed write-back it shows what was lost.
void FaultDriver::crash_soon(ServerId server, Death death, Duration span) {
  scene_.disturbances.begin();
  scene_.world.at(scene_.world.now() + span, [this, server, death] {
    scene_.disturbances.end(scene_.world.now());
    if (ending_ || down_.contains(server)) return;
    scene_.journal.note(fmt::format("FAULT {} server={}", death == Death::kMachine ? "power" : "kill", server.value));
    strike_server(server, death);
  });
}

/// Joining takes some milliseconds, so these faults strike while the new server joins.
void FaultDriver::disturb_newcomer(ServerId newcomer) {
  for (const ServerId server : {newcomer, kMetaServer}) {
    if (!random_.chance(1, 3)) continue;
    const Duration soon = std::chrono::microseconds(random_.below(5000));
    crash_soon(server, random_.chance(1, 2) ? Death::kMachine : Death::kProcess, soon);
  }
}

void FaultDriver::restart(ServerId server) {
  if (down_.erase(server) == 0) return;
  scene_.world.start_server(server);
}

/// Restarts servers that could not start, as an operator would do.
void FaultDriver::mind_servers() {
  for (const ServerId id : scene_.world.servers()) {
    const ServerProcess* process = scene_.world.server(id);
    if (process == nullptr || !process->failed()) continue;
    strike_server(id, Death::kProcess);
  }
}

/// A change is durable some time after its reply, if the meta server has had no fault during that time.
void FaultDriver::note_durable() {
  const ServerProcess* meta = scene_.world.server(kMetaServer);
  const bool healthy = meta != nullptr && meta->serving() && hurt_records_ == 0;
  if (healthy && !meta_healthy_) meta_healthy_since_ = scene_.world.now();
  meta_healthy_ = healthy;
  if (!healthy) return;
  const Duration sync = scene_.world.settings().meta_sync;
  if (sync == Duration(0)) return scene_.history.durable(scene_.world.now());
  const MonoTime since{scene_.world.now().since_start - sync - std::chrono::milliseconds(40)};
  if (since >= meta_healthy_since_) scene_.history.durable(since);
}

void FaultDriver::mend_all() {
  ending_ = true;
  planned_.clear();
  armed_.clear();
  while (!in_force_.empty()) mend(in_force_.begin());  // may stop a server before it starts it again
  for (const ServerId id : scene_.world.servers()) restart(id);
}

}  // namespace spate::cluster
