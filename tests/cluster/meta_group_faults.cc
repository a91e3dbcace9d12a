// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/meta_group_faults.h"

#include <fmt/format.h>

namespace spate::cluster {
namespace {

using bmi::sim::Death;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// After this time, all members have noticed that a machine has lost something, and hold everything again.
constexpr Duration kBetweenCrashes = seconds(10);

}  // namespace

MetaGroupFaults::MetaGroupFaults(World& world, Random& random, Journal& journal, std::uint32_t reader)
    : world_(world), random_(random), journal_(journal), reader_(reader) {
  // Backups are further away than clients, so a primary that does not wait for them answers earlier.
  bmi::sim::LinkOptions far;
  far.latency = std::chrono::microseconds(100 + random_.below(2000));
  for (const ServerId a : world_.meta_servers()) {
    for (const ServerId b : world_.meta_servers()) {
      if (a < b) world_.fabric().links().set_link(a.value, b.value, far);
    }
  }
}

ServerId MetaGroupFaults::any_server() {
  const auto all = world_.meta_servers();
  return random_.chance(1, 2) ? world_.leader() : all[random_.below(all.size())];
}

bool MetaGroupFaults::quiet() {
  const bool settled = world_.coordination().settled() && world_.now() - crashed_at_ > kBetweenCrashes;
  return in_force_ == 0 && settled && world_.is_whole();
}

void MetaGroupFaults::mend_after(Duration span, UniqueFunction<void()> mend) {
  ++in_force_;
  world_.at(world_.now() + span, [this, action = std::move(mend)]() mutable {
    --in_force_;
    action();
  });
}

void MetaGroupFaults::strike() {
  const ServerId server = any_server();
  const ServerId other = any_server();
  const Duration span(static_cast<std::int64_t>(random_.below(random_.chance(1, 3) ? 7'000'000'000 : 2'500'000'000)));
  const std::uint64_t kind = random_.below(12);
  journal_.note(
      fmt::format("FAULT {} server={} other={} span={} ms", kind, server.value, other.value, span.count() / 1'000'000));
  switch (kind) {
    case 0: return stop_server(server, Death::kProcess, span);
    case 1: kills_next_ = span + seconds(1); return;
    case 2:
      if (!quiet()) return;
      crashed_at_ = world_.now();
      return stop_server(server, Death::kMachine, span);
    case 3:
    case 4: return pause(server, span);
    case 5: return isolate(world_.leader(), span + seconds(3));
    case 6:
    case 7: return cut(server, other, span);
    case 8:
    case 9: return disturb_coordinator(span);
    case 10: return hurt_disk(server, span);
    default:
      if (!down_.contains(server) && world_.server(server)->leads()) world_.server(server)->end_in_order();
  }
}

void MetaGroupFaults::answered() {
  if (!kills_next_) return;
  const Duration span = *std::exchange(kills_next_, std::nullopt);
  stop_server(world_.leader(), Death::kProcess, span);
}

void MetaGroupFaults::stop_server(ServerId server, Death death, Duration span) {
  if (down_.contains(server) || world_.paused(server)) return;
  world_.kill_server(server, death);
  down_.insert(server);
  mend_after(span, [this, server] {
    if (down_.erase(server) != 0) world_.start_server(server);
  });
}

void MetaGroupFaults::pause(ServerId server, Duration span) {
  if (down_.contains(server) || world_.paused(server)) return;
  world_.pause(server, true);
  mend_after(span, [this, server] { world_.pause(server, false); });
}

/// Cuts the server off from all nodes except the reader's.
void MetaGroupFaults::isolate(ServerId server, Duration span) {
  const auto part = [this, server](bool is) {
    bmi::sim::Links& links = world_.fabric().links();
    for (std::uint32_t node = 1; node < reader_; ++node) {
      if (node != server.value) links.partition(server.value, node, is);
    }
  };
  part(true);
  world_.coordination().faults.cut_off.insert(server.value);
  mend_after(span, [this, server, part] {
    part(false);
    world_.coordination().faults.cut_off.erase(server.value);
  });
}

void MetaGroupFaults::cut(ServerId from, ServerId to, Duration span) {
  if (from == to) return;
  const bool both = random_.chance(1, 3);
  world_.fabric().links().partition_one_way(from.value, to.value, true);
  if (both) world_.fabric().links().partition_one_way(to.value, from.value, true);
  mend_after(span, [this, from, to] { world_.fabric().links().partition(from.value, to.value, false); });
}

void MetaGroupFaults::disturb_coordinator(Duration span) {
  coord::SimServiceFaults& faults = world_.coordination().faults;
  if (random_.chance(1, 2)) {
    faults.away = true;
  } else {
    faults.lost_answer_per_mille = 300;
    faults.late_change_per_mille = 500;
    faults.latency = milliseconds(1 + random_.below(300));
  }
  mend_after(span, [&faults] {
    faults.away = false;
    faults.lost_answer_per_mille = 0;
    faults.late_change_per_mille = 0;
    faults.latency = milliseconds(1);
  });
}

/// Makes the server's commits fail or hang.
void MetaGroupFaults::hurt_disk(ServerId server, Duration span) {
  trove::SimKeyvalFaults& faults = world_.disks(server).records.faults;
  if (random_.chance(1, 2)) {
    faults.hangs = true;
  } else {
    faults.commit_error_per_mille = 1000;
  }
  mend_after(span, [&faults] { faults = {}; });
}

void MetaGroupFaults::mend_all() {
  kills_next_.reset();
  world_.coordination().faults = {};
  for (const ServerId server : world_.meta_servers()) {
    world_.disks(server).records.faults = {};
    world_.pause(server, false);
    for (std::uint32_t node = 1; node < reader_; ++node) {
      if (node != server.value) world_.fabric().links().partition(server.value, node, false);
    }
    if (down_.erase(server) != 0) world_.start_server(server);
  }
}

}  // namespace spate::cluster
