// SPDX-License-Identifier: Apache-2.0
// Compares LockTable with the simplest model: one cell for each byte, and every rule spelt out.

#include <algorithm>
#include <array>

#include "base/expect.h"
#include "base/random.h"
#include "server/meta/locks/lock_table.h"

namespace spate::meta {
namespace {

constexpr std::size_t kBytes = 8;
constexpr std::size_t kFiles = 2;
constexpr std::size_t kOwners = 5;

struct ModelTable {
  struct LockParams {
    std::size_t file = 0, owner = 0;
    LockMode mode = LockMode::kNone;
    std::uint64_t first = 0, last = 0;
    std::uint64_t wait = 0;
  };
  std::array<std::array<std::array<LockMode, kBytes>, kOwners>, kFiles> held{};
  std::vector<LockParams> queue;  // of all files, in order of arrival

  void apply(const LockParams& w) {
    for (std::uint64_t i = w.first; i <= w.last; ++i) held[w.file][w.owner][i] = w.mode;
  }
  bool blocks(std::size_t owner, const LockParams& w) const {
    if (owner == w.owner) return false;
    for (std::uint64_t i = w.first; i <= w.last; ++i) {
      if (conflict(held[w.file][owner][i], w.mode)) return true;
    }
    return false;
  }
  bool free_for(const LockParams& w) const {
    for (std::size_t o = 0; o < kOwners; ++o) {
      if (blocks(o, w)) return false;
    }
    return true;
  }
  bool holds(std::size_t owner) const {
    for (const auto& file : held) {
      for (const LockMode mode : file[owner]) {
        if (mode != LockMode::kNone) return true;
      }
    }
    return false;
  }
  bool has_turn(const LockParams& w) const {
    if (!free_for(w)) return false;
    if (holds(w.owner)) return true;
    for (const LockParams& e : queue) {
      if (e.wait == w.wait) break;
      const bool meets = e.file == w.file && e.owner != w.owner && e.first <= w.last && w.first <= e.last;
      if (meets && conflict(e.mode, w.mode)) return false;
    }
    return true;
  }
  /// Whether queuing `w` would close a circle; found by following all owners from all owners.
  bool deadlock(const LockParams& w) const {
    std::array<std::array<bool, kOwners>, kOwners> reaches{};
    std::vector<LockParams> all = queue;
    all.push_back(w);
    for (const LockParams& q : all) {
      for (std::size_t o = 0; o < kOwners; ++o) reaches[q.owner][o] = reaches[q.owner][o] || blocks(o, q);
    }
    for (std::size_t k = 0; k < kOwners; ++k) {
      for (std::size_t i = 0; i < kOwners; ++i) {
        for (std::size_t j = 0; j < kOwners; ++j) reaches[i][j] = reaches[i][j] || (reaches[i][k] && reaches[k][j]);
      }
    }
    // Looks for a circle through `w`. Other circles may exist already, if an owner waits in two places.
    for (std::size_t o = 0; o < kOwners; ++o) {
      if (blocks(o, w) && (o == w.owner || reaches[o][w.owner])) return true;
    }
    return false;
  }
};

class LockModel {
 public:
  explicit LockModel(std::uint64_t seed) : random_(seed) {}

  void step() {
    switch (random_.below(10)) {
      case 0: return cancel();
      case 1: return release();
      default: return set();
    }
  }
  void check() {
    ASSERT_EQ(table_.waits(), model_.queue.size());
    for (const ModelTable::LockParams& w : model_.queue)
      ASSERT_FALSE(model_.has_turn(w)) << "wait " << w.wait << " is not served";
    for (std::size_t f = 0; f < kFiles; ++f) {
      for (std::uint64_t i = 0; i < kBytes; ++i) {
        const ModelTable::LockParams probe{
            f, random_.below(kOwners), random_.chance(1, 2) ? LockMode::kShared : LockMode::kExclusive, i, i, 0};
        ASSERT_EQ(table_.test(real(probe)).has_value(), !model_.free_for(probe));
      }
    }
  }

 private:
  static LockOwner owner(std::size_t number) { return {ClientId(1 + number % 3), 1, LockKind::kProcess, number}; }
  static LockParams real(const ModelTable::LockParams& w) {
    return {Handle(1 + w.file), owner(w.owner), w.mode, {w.first, w.last}, 0};
  }

  void set() {
    ModelTable::LockParams w{random_.below(kFiles), random_.below(kOwners), static_cast<LockMode>(random_.below(3)),
                             random_.below(kBytes), random_.below(kBytes),  0};
    if (w.first > w.last) std::swap(w.first, w.last);
    if (random_.chance(2, 3)) w.wait = ++last_wait_;
    const LockOutcome outcome = table_.set(real(w), w.wait);
    if (w.mode == LockMode::kNone) {
      ASSERT_EQ(outcome, LockOutcome::kGranted);
      model_.apply(w);
      return take();
    }
    const bool now = w.wait == 0 ? model_.free_for(w) : model_.has_turn(w);
    if (now) {
      ASSERT_EQ(outcome, LockOutcome::kGranted);
      model_.apply(w);
    } else if (w.wait == 0) {
      ASSERT_EQ(outcome, LockOutcome::kConflict);
    } else if (model_.deadlock(w)) {
      ASSERT_EQ(outcome, LockOutcome::kDeadlock);
    } else {
      ASSERT_EQ(outcome, LockOutcome::kQueued);
      model_.queue.push_back(w);
    }
    take();
  }
  void cancel() {
    if (model_.queue.empty()) return;
    const auto place = model_.queue.begin() + static_cast<std::ptrdiff_t>(random_.below(model_.queue.size()));
    ASSERT_TRUE(table_.cancel({owner(place->owner).client, 1, place->wait}));
    model_.queue.erase(place);
    take();
  }
  void release() {
    const ModelTable::LockParams all{random_.below(kFiles), random_.below(kOwners), LockMode::kNone, 0, kBytes - 1, 0};
    table_.release(Handle(1 + all.file), owner(all.owner));
    model_.apply(all);
    std::erase_if(model_.queue,
                  [&](const ModelTable::LockParams& w) { return w.file == all.file && w.owner == all.owner; });
    take();
  }
  /// Takes over what the table has granted, and checks that each grant came in its turn.
  void take() {
    for (const LockTable::Ended& ended : table_.take_ended()) {
      ASSERT_TRUE(ended.granted) << "the wait ended without the lock";
      const auto place = std::find_if(model_.queue.begin(), model_.queue.end(),
                                      [&](const ModelTable::LockParams& w) { return w.wait == ended.wait.number; });
      ASSERT_NE(place, model_.queue.end());
      const ModelTable::LockParams w = *place;
      ASSERT_TRUE(model_.has_turn(w)) << "wait " << w.wait;
      model_.queue.erase(place);
      model_.apply(w);
    }
  }

  SeededRandom random_;
  LockTable table_;
  ModelTable model_;
  std::uint64_t last_wait_ = 0;
};

TEST(LockTableModel, AgreesWithTheModel) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    LockModel run(seed);
    for (int step = 0; step < 150; ++step) {
      run.step();
      run.check();
      if (::testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << " step " << step;
    }
  }
}

}  // namespace
}  // namespace spate::meta
