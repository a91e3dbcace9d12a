// SPDX-License-Identifier: Apache-2.0
// SimService and SimCoordinator: a consensus service in virtual time, and a process's access to it.
#pragma once

#include <map>
#include <set>

#include "base/clock.h"
#include "base/random.h"
#include "coord/coordinator.h"
#include "job/executor.h"

namespace spate::coord {

/// Faults take effect at once and may be changed at any time.
struct SimServiceFaults {
  bool away = false;                        // the service answers nobody and changes nothing
  std::uint32_t lost_answer_per_mille = 0;  // changes that are made although the caller gets kTimeout
  std::uint32_t late_change_per_mille = 0;  // changes whose caller gets kTimeout, and that are tried some time later
  Duration latency = std::chrono::milliseconds(1);  // most in each direction; uniform
  std::set<std::uint32_t> cut_off;                  // numbers of processes that cannot reach it
};

/// One thread; outlives the coordinators.
class SimService {
 public:
  SimService(Clock& clock, Random& random) : clock_(clock), random_(random) {}
  SimService(const SimService&) = delete;
  SimService& operator=(const SimService&) = delete;

  SimServiceFaults faults;

  // For the coordinators, and for tests.
  Snapshot read(const std::string& prefix);
  Result<std::uint64_t> make(const Change& change);
  void make_later(Change change, Duration after);
  /// Replaces all records by an old copy, or by nothing, as a restored backup would.
  void restore(const Snapshot& old);
  bool reached_by(std::uint32_t process) const { return !faults.away && !faults.cut_off.contains(process); }
  bool strikes(std::uint32_t per_mille) { return per_mille != 0 && random_.chance(per_mille, 1000); }
  Duration draw(Duration most);
  /// Whether no change that its caller has given up can be made any more.
  bool settled() {
    make_what_is_due();
    return late_.empty();
  }

 private:
  /// Makes late changes before anybody looks, so that nobody sees the difference.
  void make_what_is_due();
  bool fits(const Change& change) const;

  struct Held {
    Bytes value;
    std::uint64_t revision = 0;
  };
  Clock& clock_;
  Random& random_;
  std::uint64_t revision_ = 1;
  std::map<std::string, Held> records_;
  std::multimap<MonoTime, Change> late_;
};

/// One for each process; `process` is its number.
class SimCoordinator final : public Coordinator {
 public:
  SimCoordinator(SimService& service, job::Executor& executor, std::uint32_t process)
      : service_(service), executor_(executor), process_(process) {}

  job::Task<Result<Snapshot>> read(std::string prefix, job::StopToken stop) override;
  job::Task<Result<std::uint64_t>> change(Change change, job::StopToken stop) override;

 private:
  job::Task<Result<void>> travel(job::StopToken stop);

  SimService& service_;
  job::Executor& executor_;
  const std::uint32_t process_;
};

}  // namespace spate::coord
