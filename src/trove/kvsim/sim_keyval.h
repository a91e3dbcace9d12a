// SPDX-License-Identifier: Apache-2.0
// SimKeyval: a keyval store in virtual time.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "base/unique_function.h"
#include "trove/keyval.h"
#include "trove/kvsim/sim_keyval_disk.h"
#include "trove/resolver.h"
#include "trove/versioned_map.h"

namespace spate::trove {

/// Uniform in [min, max].
struct SimLatency {
  Duration min{0};
  Duration max{0};
};

struct SimKeyvalOptions {
  SimLatency read{std::chrono::microseconds(2), std::chrono::microseconds(300)};
  SimLatency commit{std::chrono::microseconds(5), std::chrono::microseconds(500)};
  SimLatency sync{std::chrono::microseconds(100), std::chrono::milliseconds(5)};
  /// How many of 1000 operations that could complete at their post do so.
  std::uint32_t immediate_per_mille = 500;
  std::size_t conflict_window_bytes = std::size_t{1} << 20;
  /// Opening the store makes durable what an earlier process left in its log. False: a planted bug.
  bool sync_recovered = true;
};

/// Not thread-safe. The clock, the random numbers and the disk outlive it. Commits reach the disk in their order, each
/// at a time between its post and its completion.
class SimKeyval final : public Keyval {
 public:
  SimKeyval(SimKeyvalDisk& disk, ManualClock& clock, Random& random, SimKeyvalOptions options = {});
  ~SimKeyval() override;

  std::unique_ptr<Transaction> begin() override;
  bool post_sync(void* user, KeyvalCompletion& done) override;
  std::size_t test(std::span<KeyvalCompletion> out) override;
  int wait_descriptor() const override { return -1; }
  bool prepare_to_wait() override { return ready_.empty(); }
  std::string describe() const override { return "kvsim"; }
  bool short_of_space() const override { return disk_.faults.short_of_space; }
  void observe_commits(CommitObserver* observer) override { resolver_.observe_commits(observer); }

  /// never() when nothing will happen by itself.
  MonoTime next_event_time() const {
    return events_.empty() || disk_.faults.hangs ? MonoTime::never() : events_.begin()->first.first;
  }
  /// Runs all events up to `when` and moves the clock to it, unless it is there already.
  void run_until(MonoTime when);
  /// The process dies: operations in flight complete with kCancelled and have no further effect, like every later post.
  void kill();

 private:
  class SimTransaction;
  struct Event {
    void* user = nullptr;
    UniqueFunction<void()> run;
  };

  Duration draw(const SimLatency& latency);
  bool at_once() { return random_.chance(options_.immediate_per_mille, 1000); }
  bool strikes(std::uint32_t per_mille) { return per_mille != 0 && random_.chance(per_mille, 1000); }
  void after(Duration delay, void* user, UniqueFunction<void()> run);
  void complete(void* user, Errc status);
  bool deliver(const SimLatency& latency, KeyvalCompletion& done);
  bool deliver_read(KeyvalCompletion& done);
  bool commit(const WriteSet& writes, Durability durability, KeyvalCompletion& done);
  void commit_later(Version version, Batch batch, Durability durability, void* user);
  Errc apply(Version version, Batch batch);
  void sync_later(void* user);

  SimKeyvalDisk& disk_;
  ManualClock& clock_;
  Random& random_;
  const SimKeyvalOptions options_;
  Resolver resolver_;
  VersionedMap map_;
  bool alive_ = true;
  bool failed_ = false;    // a commit or sync had an I/O error: no more until the store is opened again
  MonoTime last_apply_{};  // commits reach the disk in order
  std::map<std::pair<MonoTime, std::uint64_t>, Event> events_;
  std::uint64_t event_order_ = 0;
  std::deque<KeyvalCompletion> ready_;
};

}  // namespace spate::trove
