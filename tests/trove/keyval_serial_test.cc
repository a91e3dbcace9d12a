// SPDX-License-Identifier: Apache-2.0
// Many random transactions at once, and then two questions. Could each committed one have run alone, at its place in
// the commit order? Did each transaction, committed or not, read one single state of the store?
#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "base/expect.h"
#include "base/random.h"
#include "trove/keyval_harness.h"

namespace spate::trove {
namespace {

constexpr int kKeys = 24;
constexpr std::size_t kActors = 7;
constexpr int kSteps = 6000;
constexpr int kLongestTransaction = 8;

using Model = std::map<std::string, std::string>;
using Change = std::pair<std::string, Value>;

std::string key_of(std::uint64_t number) { return "k" + std::to_string(10 + number); }

/// One operation of a transaction, and its result.
struct Step {
  enum Kind { kGet, kRange, kPut, kErase } kind = kGet;
  ReadMode mode = ReadMode::kChecked;
  std::string key;
  std::string end;  // for ranges
  std::size_t limit = 0;
  std::string value;  // for puts
  Value got;
  Entries entries;
};

struct History {
  std::vector<Step> steps;
  bool committed = false;
  std::size_t first_state = 0;  // commits acknowledged before begin()
  std::size_t last_state = 0;   // commits posted before the last read's completion
  std::size_t order = 0;        // among the posted commits
};

Entries range_of(const Model& model, const Step& step) {
  Entries found;
  for (auto at = model.lower_bound(step.key); at != model.end() && at->first < step.end; ++at) {
    if (found.size() == step.limit) {
      found.emplace_back("...", "");
      break;
    }
    found.emplace_back(at->first, at->second);
  }
  return found;
}

/// Runs the steps on `model` and applies their writes. False: a read that counts yields something else.
bool replay(const History& history, Model& model, bool checked_only) {
  for (const Step& step : history.steps) {
    const bool read = step.kind == Step::kGet || step.kind == Step::kRange;
    if (read && checked_only && step.mode != ReadMode::kChecked) continue;
    if (step.kind == Step::kGet) {
      const auto at = model.find(step.key);
      if ((at == model.end() ? Value() : Value(at->second)) != step.got) return false;
    } else if (step.kind == Step::kRange) {
      Entries found = range_of(model, step);
      // The commit does not check whether there are more keys. A caller that needs to know reads on.
      if (checked_only && !step.entries.empty() && step.entries.back().first == "..." && found.size() == step.limit)
        found.emplace_back("...", "");
      if (found != step.entries) return false;
    } else if (step.kind == Step::kPut) {
      model[step.key] = step.value;
    } else {
      model.erase(step.key);
    }
  }
  return true;
}

struct Actor {
  std::unique_ptr<Transaction> transaction;
  std::unique_ptr<Pending> pending;
  History history;
  Step step;  // in flight
  bool committing = false;
};

class KeyvalSerialTest : public KeyvalTest {
 protected:
  void run(std::uint64_t seed) {
    SeededRandom random(seed);
    std::vector<Actor> actors(kActors);
    for (int i = 0; i < kSteps; ++i) {
      Actor& actor = actors[random.below(kActors)];
      if (actor.pending != nullptr && !actor.pending->ended) {
        poll();
        if (!actor.pending->ended) {
          if (random.chance(1, 4)) backend_->idle();
          continue;
        }
      }
      collect(actor);
      act(actor, random);
    }
    for (Actor& actor : actors) {
      if (actor.pending == nullptr) continue;
      while (!actor.pending->ended) {
        if (!poll()) backend_->idle();
      }
      collect(actor);
    }
  }

  void act(Actor& actor, Random& random) {
    if (actor.transaction == nullptr) {
      actor.transaction = begin();
      actor.history = History{};
      actor.history.first_state = acknowledged_prefix();
    }
    Transaction& t = *actor.transaction;
    Step& step = actor.step = Step{};
    step.key = key_of(random.below(kKeys));
    step.mode = random.chance(1, 5) ? ReadMode::kSnapshot : ReadMode::kChecked;
    const std::uint64_t choice = random.below(kLongestTransaction);
    if (choice < 2) {
      step.kind = Step::kGet;
      actor.pending = start_get(t, step.key, step.mode);
    } else if (choice < 3) {
      step.kind = Step::kRange;
      step.end = key_of(random.below(kKeys));
      step.limit = 1 + random.below(8);
      actor.pending = start_range(t, step.key, step.end, step.limit, step.mode);
    } else if (choice < 6) {
      write(actor, random);
    } else if (choice < 7 || actor.history.steps.size() >= kLongestTransaction) {
      start_commit_of(actor, random);
    } else if (random.chance(1, 10)) {
      finish(actor);  // drops the transaction
    }
  }

  void write(Actor& actor, Random& random) {
    Step& step = actor.step;
    step.kind = random.chance(1, 3) ? Step::kErase : Step::kPut;
    if (step.kind == Step::kPut) {
      step.value = "v" + std::to_string(++values_);
      put(*actor.transaction, step.key, step.value);
    } else {
      erase(*actor.transaction, step.key);
    }
    actor.history.steps.push_back(step);
  }

  void start_commit_of(Actor& actor, Random& random) {
    actor.committing = true;
    actor.history.order = posted_.size();
    posted_.push_back(false);
    const Durability durability = random.chance(1, 10) ? Durability::kMachine : Durability::kProcess;
    actor.pending = start_commit(*actor.transaction, durability);
  }

  void collect(Actor& actor) {
    if (actor.pending == nullptr) return;
    KeyvalCompletion done = std::move(actor.pending->done);
    actor.pending.reset();
    if (actor.committing) {
      actor.committing = false;
      ASSERT_THAT(done.status, ::testing::AnyOf(Errc::kOk, Errc::kConflict));
      posted_[actor.history.order] = true;
      actor.history.committed = done.status == Errc::kOk;
      finish(actor);
      return;
    }
    ASSERT_EQ(done.status, Errc::kOk);
    if (done.value) actor.step.got = std::string(as_text(*done.value));
    for (const KeyValue& entry : done.entries)
      actor.step.entries.emplace_back(as_text(entry.key), as_text(entry.value));
    if (done.more) actor.step.entries.emplace_back("...", "");
    actor.history.steps.push_back(actor.step);
    actor.history.last_state = posted_.size();
  }

  void finish(Actor& actor) {
    actor.transaction.reset();
    histories_.push_back(std::move(actor.history));
  }

  /// The number of commits, counted from the first posted one, that have all completed.
  std::size_t acknowledged_prefix() const {
    return static_cast<std::size_t>(std::find(posted_.begin(), posted_.end(), false) - posted_.begin());
  }

  void check(std::uint64_t seed) {
    std::vector<const History*> by_order(posted_.size(), nullptr);
    std::size_t conflicts = 0;
    for (const History& history : histories_) {
      if (history.committed) by_order[history.order] = &history;
    }
    std::vector<Model> states{Model{}};  // states[n]: the state after n posted commits
    for (const History* history : by_order) {
      Model next = states.back();
      if (history == nullptr) ++conflicts;
      if (history != nullptr) {
        ASSERT_TRUE(replay(*history, next, true)) << "seed " << seed << " commit " << states.size();
      }
      states.push_back(std::move(next));
    }
    for (const History& history : histories_) {
      bool found = history.last_state < history.first_state;  // it has made no reads
      for (std::size_t n = history.first_state; n <= history.last_state && !found; ++n) {
        Model state = states[n];
        found = replay(history, state, false);
      }
      ASSERT_TRUE(found) << "seed " << seed << ": a transaction read a mixture of states";
    }
    EXPECT_GT(states.size(), 200U);
    EXPECT_GT(conflicts, 20U);
    EXPECT_LT(conflicts, states.size());
    const auto t = begin();
    const Entries now = range(*t, "k", "l");
    EXPECT_EQ(now, Entries(states.back().begin(), states.back().end()));
  }

  int values_ = 0;
  std::vector<bool> posted_;  // by commit; true: it has completed
  std::vector<History> histories_;
};

TEST_P(KeyvalSerialTest, RandomTransactionsAreSerialisable) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    backend_ = make_keyval_backend(GetParam(), seed == 3 ? 2048 : 1 << 20);
    posted_.clear();
    histories_.clear();
    run(seed);
    check(seed);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Modules, KeyvalSerialTest, testing::ValuesIn(keyval_backend_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace spate::trove
