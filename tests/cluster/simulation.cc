// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/simulation.h"

#include <fmt/format.h>

#include "server/meta/store/keys.h"
#include "server/meta/store/records.h"
#include "tests/cluster/faults.h"
#include "tests/cluster/verify.h"
#include "tests/cluster/workload.h"

namespace spate::cluster {
namespace {

constexpr std::size_t kClients = 3;
/// Much longer than any run needs. A run that takes longer has a task that never ends.
constexpr Duration kLongest = std::chrono::hours(2);
constexpr std::size_t kFewStates = 100;
constexpr Duration kLookForFenced = std::chrono::milliseconds(300);

WorldOptions world_options(const SimulationOptions& options) {
  SeededRandom random(options.seed * 7919);
  WorldOptions world;
  world.seed = options.seed;
  world.plant = options.plant;
  world.io_servers = static_cast<std::uint32_t>(2 + random.below(3));
  world.meta_sync = random.chance(1, 3) ? Duration(0) : Duration(std::chrono::milliseconds(100));
  // A short life, so that capabilities are renewed while other requests are in flight.
  if (options.seed % 3 == 0) world.capability_life = std::chrono::milliseconds(600);
  world.fabric.link.jitter = random.chance(1, 2) ? Duration(std::chrono::microseconds(300)) : Duration(0);
  world.fabric.link.slow_per_mille = static_cast<std::uint32_t>(random.below(4) * 10);
  world.fabric.chunk_bytes = 4096;
  world.fabric.cancel_drops_per_mille = 200;
  world.bypass = io::BypassPolicy::kWrite;
  world.direct = options.seed % 4 == 1;
  return world;
}

class Simulation final : private ClientRoster {
 public:
  explicit Simulation(const SimulationOptions& options)
      : options_(options),
        scene_(world_options(options), options.print,
               [this](std::uint64_t handle, const LockClaim& claim) { return still_held(handle, claim); }),
        random_(options.seed * 104729),
        faults_(scene_, *this, random_.next()) {
    scene_.operations_left = options.operations;
    scene_.restart_meta = [this] { faults_.restart_meta(); };
    if (options.faults) faults_.plan(options.operations, options.aims);
    if (random_.chance(3, 4)) grow_at_ = options.operations * (5 + random_.below(5)) / 10;
  }

  ~Simulation() override {
    for (const auto& workload : workloads_) {
      if (!workload->was_killed() && !workload->has_left()) workload->killed();  // it reports nothing any more
    }
  }

  SimulationReport run() {
    work();
    if (scene_.failure.empty()) finish();
    SimulationReport report;
    report.failure = scene_.failure;
    report.last_lines.assign(scene_.journal.last_lines().begin(), scene_.journal.last_lines().end());
    report.digest = scene_.journal.digest() ^ scene_.world.fabric().digest();
    report.operations = options_.operations - scene_.operations_left;
    report.clients = workloads_.size();
    report.crashes = faults_.crashes();
    report.bypassed_bytes = scene_.world.bypassed_bytes();
    report.pages_kept = scene_.pages_kept;
    report.virtual_seconds = static_cast<double>(scene_.world.now().since_start.count()) / 1e9;
    report.coverage = faults_.coverage();
    return report;
  }

 private:
  std::vector<Workload*> at_work() override {
    std::vector<Workload*> list;
    for (const auto& workload : workloads_) {
      if (!workload->was_killed() && !workload->finished()) list.push_back(workload.get());
    }
    return list;
  }

  std::vector<Workload*> alive() override {
    std::vector<Workload*> list;
    for (const auto& workload : workloads_) {
      if (scene_.world.client(workload->node()) != nullptr) list.push_back(workload.get());
    }
    return list;
  }

  void kill(Workload& workload, bmi::sim::Death death) override {
    workload.killed();
    scene_.world.kill_client(workload.process(), death);
    if (!workload.has_left()) gone_.push_back(&workload);
  }

  /// Starts every second client on the machine of an io server.
  ClientProcess& start_process(int index, client::Options client_options) {
    if (index % 2 == 1) return scene_.world.start_client(std::move(client_options));
    const std::vector<ServerId> servers = scene_.world.servers();  // the first one is the meta server
    const std::size_t place = 1 + static_cast<std::size_t>(index / 2) % (servers.size() - 1);
    return scene_.world.start_client_beside(servers.at(place), std::move(client_options));
  }

  void start_client() {
    const int index = static_cast<int>(workloads_.size());
    client::Options client_options = small_client_options({}, {}, {});
    client_options.keep_attributes = index % 3 != 2;
    client_options.most_kept = index % 2 == 0 ? 16 : 5000;
    client_options.bypass = client::BypassMode::kWrite;
    ClientProcess& process = start_process(index, std::move(client_options));
    workloads_.push_back(std::make_unique<Workload>(scene_, process, index, random_.next()));
    scene_.journal.note(fmt::format("c{} comes, node {}", index, process.node()));
    job::spawn(process.gate(), workloads_.back()->run());
  }

  void replace_the_gone() {
    for (const auto& workload : workloads_) {
      if (!workload->finished() || workload->has_left() || workload->was_killed()) continue;
      workload->leave();
      gone_.push_back(workload.get());
    }
    if (scene_.operations_left == 0) return;
    for (std::size_t n = at_work().size(); n < kClients; ++n) start_client();
  }

  std::map<ClientId, meta::SessionRecord> read_sessions() {
    std::map<ClientId, meta::SessionRecord> sessions;
    for (const trove::BatchWrite& record : scene_.world.disks(kMetaServer).records.contents()) {
      if (static_cast<meta::KeyKind>(record.key.front()) != meta::KeyKind::kSession) continue;
      auto session = meta::decode_record<meta::SessionRecord>(*record.value);
      if (session) sessions[session->client] = *session;
    }
    return sessions;
  }

  bool still_held(std::uint64_t handle, const LockClaim& claim) {
    const Workload& holder = *workloads_.at(static_cast<std::size_t>(claim.client));
    if (ClientProcess* process =
            scene_.world.client(holder.node())) {  // otherwise it is dead, and holds the lock for a while longer
      client::Locks& locks = process->client().cluster().locks();
      if (!locks.holds(Handle(handle), {claim.kind, claim.number})) return false;
    }
    const auto sessions = read_sessions();
    const auto session = sessions.find(claim.session);
    return session != sessions.end() && session->second.state == meta::SessionState::kOpen &&
           session->second.epoch == claim.epoch;
  }

  /// Finds clients whose sessions the meta server has released: nothing of them can take effect any more.
  void look_for_the_fenced() {
    if (gone_.empty() || scene_.world.now() < next_look_) return;
    next_look_ = scene_.world.now() + kLookForFenced;
    const auto sessions = read_sessions();
    std::erase_if(gone_, [&](Workload* workload) {
      const auto session = sessions.find(workload->session());
      const bool over = session == sessions.end() || (session->second.state != meta::SessionState::kOpen &&
                                                      session->second.released_epoch == session->second.epoch);
      if (over) workload->fenced();
      return over;
    });
  }

  /// The store shows the present state of the name space. The model can drop all states that differ from it.
  void keep_the_model_small() {
    if (scene_.history.states() < look_at_states_) return;
    const auto stored = read_store(scene_.world.disks(kMetaServer).records);
    if (!stored) return scene_.fail("the meta server's records cannot be read");
    if (!scene_.history.is(*stored)) return scene_.fail("in the meta server's store, " + scene_.history.explain());
    look_at_states_ = std::max(kFewStates, 2 * scene_.history.states());
  }

  /// Adds an io server at some time of the run. Clients learn of it by themselves.
  void grow() {
    if (!grow_at_ || scene_.operations_left > *grow_at_) return;
    grow_at_.reset();
    const ServerId added = scene_.world.add_io_server(world_options(options_));
    scene_.journal.note(fmt::format("server {} is added", added.value));
    if (options_.faults) faults_.disturb_newcomer(added);
  }

  void look_at_map() {
    ServerProcess* const meta = scene_.world.server(kMetaServer);
    if (meta == nullptr || !meta->serving()) return;
    const std::uint64_t version = meta->meta()->core().membership().map().version;
    if (version < map_version_)
      scene_.fail(fmt::format("the cluster map has gone back from version {} to {}", map_version_, version));
    map_version_ = version;
  }

  void work() {
    const MonoTime limit = scene_.world.now() + kLongest;
    while (scene_.failure.empty()) {
      replace_the_gone();
      if (scene_.operations_left == 0 && alive().empty()) break;
      grow();
      look_at_map();
      faults_.run(scene_.operations_left);
      look_for_the_fenced();
      keep_the_model_small();
      if (!scene_.world.turn(limit)) scene_.fail("the clients have not finished: something hangs");
    }
    if (scene_.history.overwhelmed()) scene_.fail("the model has lost its way: too many states are possible");
  }

  void finish() {
    scene_.journal.note("all clients have gone");
    faults_.mend_all();
    wait_until_settled(scene_);
    for (const auto& workload : workloads_) workload->everything_over();
    if (!scene_.failure.empty()) return;
    std::set<std::uint64_t> forgotten = faults_.forgotten();
    forgotten.insert(scene_.perhaps_forgotten.begin(), scene_.perhaps_forgotten.end());
    verify(scene_, forgotten);
  }

  const SimulationOptions options_;
  std::vector<std::unique_ptr<Workload>> workloads_;  // outlive the world, whose processes run them
  Scene scene_;
  SeededRandom random_;
  FaultDriver faults_;
  std::vector<Workload*> gone_;  // ended clients that are not known to be fenced
  MonoTime next_look_;
  std::size_t look_at_states_ = kFewStates;
  std::optional<std::uint64_t> grow_at_;  // add a server when so many operations are left
  std::uint64_t map_version_ = 0;
};

}  // namespace

std::string replay_arguments(const SimulationOptions& options) {
  std::string text = fmt::format("--seed {}", options.seed);
  if (options.operations != SimulationOptions().operations) text += fmt::format(" --ops {}", options.operations);
  if (options.plant != Plant::kNone) text += fmt::format(" --plant {}", name(options.plant));
  if (!options.faults) text += " --no-faults";
  for (const Aim& aim : options.aims) text += " --aim " + to_string(aim);
  return text + " --verbose";
}

SimulationReport simulate(const SimulationOptions& options) { return Simulation(options).run(); }

}  // namespace spate::cluster
