// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/meta_group_run.h"

#include <fmt/format.h>

#include <set>

#include "tests/cluster/calls.h"
#include "tests/cluster/meta_group_faults.h"
#include "trove/log_entry.h"

namespace spate::cluster {
namespace {

using client::path_from_root;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kNamingPrograms = 3;
constexpr Duration kFaulty = seconds(45);
constexpr Duration kHealing = std::chrono::minutes(3);

WorldOptions world_options(const MetaGroupOptions& options) {
  WorldOptions world;
  world.seed = options.seed;
  world.plant = options.plant;
  world.meta_servers = options.servers != 0 ? options.servers : 2 + static_cast<std::uint32_t>(options.seed % 3 != 0);
  world.io_servers = 1;
  world.session_lease = seconds(60);  // no session ends, so that each call is carried out
  return world;
}

client::Options patient_options() {
  client::Options options = small_client_options({}, {}, {});
  options.deadline = std::chrono::minutes(30);
  options.keep_attributes = false;  // so the reader asks a server each time
  return options;
}

job::Task<Errc> make_name(client::Client& client, std::string path) {
  wire::CreateRequest create;
  create.where = path_from_root(path);
  create.open_flags = wire::kOpenExclusive;
  const auto made = co_await client.make_node(std::move(create));
  co_return made.code();
}

job::Task<Errc> rename_name(client::Client& client, std::string from, std::string to) {
  const auto renamed = co_await client.rename(path_from_root(from), path_from_root(to), 0);
  co_return renamed.code();
}

job::Task<Errc> remove_name(client::Client& client, std::string path) {
  const auto removed = co_await client.unlink(path_from_root(path));
  co_return removed.code();
}

job::Task<Errc> look_for(client::Client& client, std::string path) {
  const auto found = co_await client.stat(path_from_root(path));
  co_return found.code();
}

/// Makes a file and renames it; removes every second one.
struct NamingProgram {
  ClientProcess* process = nullptr;
  std::uint64_t round = 0;
  int step = 0;
  Outcome<Errc> outcome;  // null: no call is in flight
  MonoTime goes_on;
  std::set<std::string> kept;  // names that exist for certain
};

class MetaGroupRun {
 public:
  explicit MetaGroupRun(const MetaGroupOptions& options)
      : random_(options.seed * 7919), world_(world_options(options)), journal_(world_, options.print) {
    for (std::size_t i = 0; i < kNamingPrograms; ++i) programs_[i].process = &world_.start_client(patient_options());
    reader_ = &world_.start_client(patient_options());
    faults_.emplace(world_, random_, journal_, reader_->node());
  }

  MetaGroupReport run() {
    plan_faults();
    while (report_.failure.empty() && world_.now() < end_of_faults_) turn();
    faults_->mend_all();
    stopping_ = true;
    const MonoTime limit = world_.now() + kHealing;
    while (report_.failure.empty() && !(all_idle() && world_.is_whole())) {
      if (world_.now() >= limit) fail(all_idle() ? "not all meta servers serve again" : "a call was never answered");
      turn();
    }
    if (report_.failure.empty()) compare();
    report_.virtual_seconds = static_cast<double>(world_.now().since_start.count()) / 1e9;
    if (!report_.failure.empty()) report_.failure += recent();
    return report_;
  }

 private:
  void plan_faults() {
    MonoTime when = world_.now() + seconds(4);
    while (when < MonoTime() + (kFaulty - seconds(1))) {
      world_.at(when, [this] { faults_->strike(); });
      when = when + Duration(milliseconds(200 + random_.below(4000)));
    }
  }

  void turn() {
    for (std::size_t i = 0; i < kNamingPrograms; ++i) look_at(i);
    look_at_reader();
    if (const ServerId now = world_.leader(); now != leader_) {
      leader_ = now;
      ++report_.epochs;
    }
    world_.turn(world_.now() + milliseconds(50));
  }

  std::string name_of(char kind, std::size_t i, std::uint64_t round) const {
    return fmt::format("{}{}.{}", kind, i, round);
  }

  void look_at(std::size_t i) {
    NamingProgram& program = programs_[i];
    if (program.outcome != nullptr) {
      if (!program.outcome->has_value()) return;
      finish_step(i, **program.outcome);
      program.outcome = nullptr;
      program.goes_on = world_.now() + milliseconds(random_.chance(1, 3) ? random_.below(400) : random_.below(4));
    }
    if (stopping_ || world_.now() < program.goes_on) return;
    client::Client& client = program.process->client();
    const std::string first = name_of('a', i, program.round);
    const std::string second = name_of('b', i, program.round);
    switch (program.step) {
      case 0: program.outcome = begin_call(*program.process, make_name(client, first)); break;
      case 1: program.outcome = begin_call(*program.process, rename_name(client, first, second)); break;
      default: program.outcome = begin_call(*program.process, remove_name(client, second));
    }
  }

  void finish_step(std::size_t i, Errc code) {
    faults_->answered();
    NamingProgram& program = programs_[i];
    ++report_.calls;
    static constexpr std::array kSteps = {"make", "rename", "remove"};
    journal_.note(fmt::format("program {} {} {}: {}", i, kSteps.at(static_cast<std::size_t>(program.step)),
                              program.round, name(code)));
    if (code != Errc::kOk) {
      return fail(fmt::format("program {}: {} of its file {}: {}", i, kSteps.at(static_cast<std::size_t>(program.step)),
                              program.round, name(code)));
    }
    const bool removes = program.round % 2 == 0;
    if (program.step == 1 && !removes) program.kept.insert(name_of('b', i, program.round));
    const bool done = program.step == 2 || (program.step == 1 && !removes);
    program.step = done ? 0 : program.step + 1;
    if (done) ++program.round;
  }

  /// The reader asks for the newest name that a program knows to exist. Programs do not remove these names.
  void look_at_reader() {
    if (read_ != nullptr) {
      if (!read_->has_value()) return;
      if (**read_ != Errc::kOk) fail(fmt::format("{} is there, but the reader was told {}", reads_, name(**read_)));
      read_ = nullptr;
      reads_next_ = world_.now() + milliseconds(random_.below(100));
    }
    if (stopping_ || world_.now() < reads_next_) return;
    const NamingProgram& program = programs_[random_.below(kNamingPrograms)];
    if (program.kept.empty()) return;
    const std::uint64_t newest = program.round - 1 - (program.round % 2 == 1 ? 1 : 0);
    reads_ = name_of('b', static_cast<std::size_t>(&program - programs_.data()), newest | 1U);
    if (!program.kept.contains(reads_)) reads_ = *program.kept.begin();
    read_ = begin_call(*reader_, look_for(reader_->client(), reads_));
  }

  bool all_idle() const {
    return read_ == nullptr && std::all_of(programs_.begin(), programs_.end(),
                                           [](const NamingProgram& each) { return each.outcome == nullptr; });
  }

  /// At the end, all meta servers must hold the same records, and each name that a program knows to exist must exist.
  void compare() {
    world_.run_for(seconds(3));  // until all messages have arrived
    std::optional<std::vector<std::pair<Bytes, Bytes>>> first;
    for (const ServerId server : world_.meta_servers()) {
      std::vector<std::pair<Bytes, Bytes>> records;
      for (const trove::BatchWrite& write : world_.disks(server).records.contents()) {
        if (write.key.front() != trove::kGroupKeys) records.emplace_back(write.key, *write.value);
      }
      if (!first) first = records;
      if (*first != records) fail(fmt::format("meta server {} holds other records than the first one", server.value));
    }
    for (const NamingProgram& program : programs_) {
      for (const std::string& kept : program.kept) {
        const Errc found = call(world_, *reader_, look_for(reader_->client(), kept));
        if (found != Errc::kOk) return fail(fmt::format("in the end {}: {}", kept, name(found)));
      }
    }
  }

  void fail(std::string what) {
    if (report_.failure.empty()) report_.failure = std::move(what);
  }

  std::string recent() {
    std::string out = fmt::format(" (at {} ms)", world_.now().since_start.count() / 1'000'000);
    for (const std::string& line : journal_.last_lines()) out += "\n  | " + line;
    return out;
  }

  SeededRandom random_;
  World world_;
  Journal journal_;
  std::array<NamingProgram, kNamingPrograms> programs_;
  ClientProcess* reader_ = nullptr;
  std::optional<MetaGroupFaults> faults_;
  Outcome<Errc> read_;
  std::string reads_;
  MonoTime reads_next_;
  const MonoTime end_of_faults_ = MonoTime() + kFaulty;
  ServerId leader_;
  bool stopping_ = false;
  MetaGroupReport report_;
};

}  // namespace

MetaGroupReport run_meta_group(const MetaGroupOptions& options) { return MetaGroupRun(options).run(); }

}  // namespace spate::cluster
