// SPDX-License-Identifier: Apache-2.0
#include "tests/group/group_run.h"

#include <fmt/core.h>

#include <memory>
#include <set>

#include "base/codec.h"
#include "log/log.h"
#include "tests/group/counters.h"
#include "tests/group/group_world.h"

namespace spate::group {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint32_t kClients = 3;
constexpr std::uint32_t kReader = 0;  // the number of the client that only reads
constexpr std::uint32_t kCounters = 2;
constexpr std::uint64_t kOperations = 120;  // by each client
constexpr Duration kFaulty = seconds(60);
constexpr Duration kHealing = seconds(120);

std::int64_t in_ms(Duration span) { return span.count() / 1'000'000; }

/// Two or three members. In some runs all answers wait for a sync, so that all machines may crash at once.
struct Plan {
  std::uint32_t members = 2;
  bool durable = false;
  std::uint32_t min = 1;  // as many members must hold a change when it is answered
};

class Run {
 public:
  Run(const GroupRunOptions& options, Plan plan)
      : plan_(plan), world_({options.seed, plan.members, 0.1, options.defect, plan.min}), random_(world_.random()) {}

  GroupRunResult run();

 private:
  struct Client {
    std::uint32_t number = 0;
    std::uint64_t done = 0;
    std::uint64_t attempt = 0;
    std::uint32_t asks = 0;  // the member to which it sends its next request
    CountRequest request;
    std::uint64_t least = 0;
  };

  void begin_operation(Client& client);
  void ask(Client& client);
  void answered(Client& client, std::uint64_t attempt, std::optional<std::uint64_t> value);
  void check_copies(const CountRequest& request);
  void plan_faults();
  void strike();
  void mend_all();
  bool all_serve();
  bool finished() const;
  void compare_stores();
  void mend_after(Duration span, UniqueFunction<void()> mend);
  bool may_lose();
  bool quiet();
  std::string describe();

  const Plan plan_;
  GroupWorld world_;
  Random& random_;
  Counters counters_;
  std::vector<Client> clients_;
  bool healing_ = false;
  std::uint32_t in_force_ = 0;  // number of faults in force
  std::set<std::uint32_t> isolated_;
  MonoTime crashed_at_;
  GroupRunResult result_;
};

void Run::begin_operation(Client& client) {
  if (client.done == kOperations) return;
  client.request = {client.number, client.done + 1, static_cast<std::uint32_t>(random_.below(kCounters)),
                    client.number != kReader && random_.chance(2, 3), plan_.durable};
  client.least = counters_.begin(client.request.counter, client.request.increments);
  ask(client);
}

void Run::ask(Client& client) {
  const std::uint64_t attempt = ++client.attempt;
  const std::uint32_t member = client.asks;
  const auto tell = [this, &client, attempt](std::optional<std::uint64_t> value) {
    world_.at(world_.latency_from_now(), [this, &client, attempt, value] { answered(client, attempt, value); });
  };
  const auto look = [this, request = client.request, tell](std::optional<std::uint64_t> value) {
    if (value && request.increments) check_copies(request);
    tell(value);
  };
  world_.at(world_.latency_from_now(), [this, member, request = client.request, look] {
    GroupProcess* const process = world_.process(member);
    const bool reached = request.client == kReader || !isolated_.contains(member);
    if (process != nullptr && reached) process->count(request, look);
  });
  world_.after(milliseconds(700), [this, &client, attempt] { answered(client, attempt, std::nullopt); });
}

/// As many members as the record demands must hold an increment at the moment of its answer. A machine that has lost
/// its disk a moment ago may have held it.
void Run::check_copies(const CountRequest& request) {
  if (plan_.min < 2 || world_.now() - crashed_at_ < seconds(15)) return;
  std::uint32_t holders = 0;
  for (std::uint32_t i = 0; i < world_.members(); ++i) holders += holds(*world_.machine(i).disk, request) ? 1 : 0;
  if (holders < plan_.min) counters_.fail(fmt::format("an increment is answered that {} members hold", holders));
}

void Run::answered(Client& client, std::uint64_t attempt, std::optional<std::uint64_t> value) {
  if (attempt != client.attempt) return;
  if (!value) {
    ++client.attempt;
    client.asks = static_cast<std::uint32_t>(random_.below(world_.members()));
    return world_.after(milliseconds(20), [this, &client] { ask(client); });
  }
  ++client.attempt;
  const CountRequest& request = client.request;
  counters_.answered(request.counter, request.increments, client.least, *value);
  ++client.done;
  ++result_.operations;
  world_.after(world_.some(milliseconds(600)), [this, &client] { begin_operation(client); });
}

void Run::mend_after(Duration span, UniqueFunction<void()> mend) {
  ++in_force_;
  world_.after(span, [this, action = std::move(mend)]() mutable {
    --in_force_;
    action();
  });
}

/// Whether a machine may crash now. All answers must wait for syncs, or all other members must hold the changes that it
/// may lose. (A group survives one loss at a time.)
bool Run::may_lose() { return plan_.durable || quiet(); }

bool Run::quiet() {
  return in_force_ == 0 && all_serve() && world_.service().settled() && world_.now() - crashed_at_ > seconds(10);
}

void Run::strike() {
  if (healing_) return;
  const auto member = static_cast<std::uint32_t>(random_.below(world_.members()));
  const auto other = static_cast<std::uint32_t>(random_.below(world_.members()));
  const Duration span = world_.some(random_.chance(1, 3) ? seconds(8) : milliseconds(2500));
  coord::SimServiceFaults& faults = world_.service().faults;
  const std::uint64_t kind = random_.below(15);
  SPATE_LOG("test", info, "FAULT {} member={} other={} at={} span={} ms", kind, member + 1, other + 1,
            in_ms(world_.now() - MonoTime()), in_ms(span));
  switch (kind) {
    case 0:
    case 1: world_.kill(member); return mend_after(span, [this, member] { world_.start(member); });
    case 2:
      if (!may_lose()) return;
      crashed_at_ = world_.now();
      world_.crash(member);
      return mend_after(span, [this, member] { world_.start(member); });
    case 3:
      if (!plan_.durable) return;
      for (std::uint32_t i = 0; i < world_.members(); ++i) {
        crashed_at_ = world_.now();
        world_.crash(i);
        mend_after(world_.some(seconds(5)), [this, i] { world_.start(i); });
      }
      return;
    case 4:
    case 5: world_.pause(member, true); return mend_after(span, [this, member] { world_.pause(member, false); });
    case 6:
    case 7:
      world_.cut(member, other, true);
      if (random_.chance(1, 3)) world_.cut(other, member, true);
      return mend_after(span, [this, member, other] {
        world_.cut(member, other, false);
        world_.cut(other, member, false);
      });
    case 8: faults.away = true; return mend_after(span, [&faults] { faults.away = false; });
    case 9:
      faults.lost_answer_per_mille = 300;
      faults.late_change_per_mille = 500;
      faults.latency = milliseconds(1 + random_.below(300));
      return mend_after(span * 4, [&faults] { faults = {}; });
    case 10:
      world_.trouble(static_cast<std::uint32_t>(random_.below(20)));
      world_.slow(milliseconds(1 + random_.below(80)));
      return mend_after(span, [this] {
        world_.trouble(0);
        world_.slow(std::chrono::microseconds(500));
      });
    case 11:
    case 12:
      // Isolates the member from all others. Only one client can reach it.
      isolated_.insert(member);
      faults.cut_off.insert(member + 1);
      for (std::uint32_t i = 0; i < world_.members(); ++i) {
        world_.cut(member, i, true);
        world_.cut(i, member, true);
      }
      return mend_after(span, [this, member, &faults] {
        isolated_.erase(member);
        faults.cut_off.erase(member + 1);
        for (std::uint32_t i = 0; i < world_.members(); ++i) {
          world_.cut(member, i, false);
          world_.cut(i, member, false);
        }
      });
    case 13:
      if (!quiet()) return;
      crashed_at_ = world_.now();
      world_.wipe(member);
      return mend_after(span, [this, member] { world_.start(member); });
    default:
      if (world_.process(member) != nullptr && !world_.paused(member)) world_.process(member)->hand_over();
  }
}

void Run::plan_faults() {
  MonoTime when;
  while (when < MonoTime() + kFaulty) {
    when = when + milliseconds(200) + world_.some(seconds(6));
    world_.at(when, [this] { strike(); });
  }
  world_.at(MonoTime() + kFaulty, [this] { mend_all(); });
}

void Run::mend_all() {
  healing_ = true;
  world_.service().faults = {};
  world_.trouble(0);
  world_.slow(std::chrono::microseconds(500));
  for (std::uint32_t i = 0; i < world_.members(); ++i) {
    for (std::uint32_t j = 0; j < world_.members(); ++j) world_.cut(i, j, false);
    world_.pause(i, false);
    world_.start(i);
  }
}

bool Run::all_serve() {
  const auto record = world_.record();
  return record && record->serving() == world_.members();
}

bool Run::finished() const {
  for (const Client& client : clients_) {
    if (client.done < kOperations) return false;
  }
  return true;
}

/// At the end all members must hold the same records, with all counted increments.
void Run::compare_stores() {
  std::optional<std::vector<std::pair<Bytes, Bytes>>> first;
  for (std::uint32_t i = 0; i < world_.members(); ++i) {
    std::vector<std::pair<Bytes, Bytes>> records;
    for (const trove::BatchWrite& write : world_.machine(i).disk->contents()) {
      if (write.key.front() != std::byte{0xFF}) records.emplace_back(write.key, *write.value);
    }
    if (!first) {
      first = std::move(records);
    } else if (*first != records) {
      counters_.fail(fmt::format("members 0 and {} hold other records", i));
    }
  }
  for (const auto& [key, value] : *first) {
    if (key.front() != std::byte{'c'}) continue;
    Decoder in(ByteView(key).subspan(1));
    counters_.ended(in.u32(), Decoder(value).u64());
  }
}

std::string Run::describe() {
  std::string out = fmt::format(" (at {} ms", world_.now().since_start.count() / 1'000'000);
  for (std::uint32_t i = 0; i < world_.members(); ++i) {
    GroupProcess* const process = world_.process(i);
    if (process == nullptr) continue;
    const Member& member = process->member();
    out +=
        fmt::format("; {}{} epoch {}, last {}.{}{}{}", i + 1, member.leads() ? " leads" : "", member.record().epoch,
                    member.log().last().epoch, member.log().last().index,
                    member.log().tail_unknown() ? " tail unknown" : "", member.log().incomplete() ? " incomplete" : "");
  }
  const auto record = world_.record();
  if (record) out += fmt::format("; record: epoch {}, {} serve", record->epoch, record->serving());
  return out + ")";
}

GroupRunResult Run::run() {
  for (std::uint32_t i = 0; i < kClients; ++i) clients_.push_back({i, 0, 0, 0, {}, 0});
  for (Client& client : clients_) begin_operation(client);
  plan_faults();
  world_.supervise();
  const MonoTime limit = MonoTime() + kFaulty + kHealing;
  bool good = false;
  while (counters_.failure().empty() && world_.now() < limit && !good) {
    good = healing_ && finished() && all_serve();
    if (!good) std::ignore = world_.turn(world_.now() + milliseconds(100));
  }
  if (counters_.failure().empty() && !good) {
    counters_.fail(finished() ? "not all members serve again" : "an operation was never answered");
  }
  if (counters_.failure().empty()) {
    // Let the messages in flight arrive.
    const MonoTime end = world_.now() + seconds(3);
    while (world_.now() < end) std::ignore = world_.turn(end);
    compare_stores();
  }
  result_.ended = world_.now();
  result_.failure = counters_.failure();
  if (!result_.failure.empty()) result_.failure += describe();
  if (const auto record = world_.record()) {
    result_.epochs = record->epoch;
    result_.losses = record->loss;
  }
  return result_;
}

}  // namespace

GroupRunResult run_group(const GroupRunOptions& options) {
  SeededRandom random(options.seed ^ 0x6772'6F75);
  Plan plan{static_cast<std::uint32_t>(random.chance(1, 2) ? 2 : 3), random.chance(1, 3)};
  if (random.chance(1, 3)) plan.min = 2;
  Run run(options, plan);
  return run.run();
}

}  // namespace spate::group
