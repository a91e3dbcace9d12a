// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace spate::cluster {
namespace {

constexpr std::size_t kMostStates = 100000;

std::uint64_t hash_of(const Facts& facts) {
  std::uint64_t h = static_cast<std::uint64_t>(facts.code) * 0x9E3779B97F4A7C15ULL + facts.node;
  h = h * 31 + facts.mode;
  h = h * 31 + facts.links;
  h = h * 31 + facts.entries;
  h = h * 31 + facts.xattr + static_cast<std::uint64_t>(facts.mtime);
  for (const Listed& entry : facts.listing) h = h * 31 + entry.node * 65537ULL + entry.name;
  return h;
}

}  // namespace

NodeId History::begin(NameOp op, int client) {
  op.number = ++last_number_;
  pending_.emplace(op.number, Pending{std::move(op), client, false});
  return last_number_;
}

History::State History::after(const State& state, const NameOp& op) const {
  State next = state;
  Tree tree = *state.tree;
  Facts facts = apply(tree, op, targets_);
  if (tree.hash() != state.tree->hash()) next.tree = std::make_shared<const Tree>(std::move(tree));
  next.done.emplace(op.number, std::move(facts));
  return next;
}

bool History::commute(const State& state, const NameOp& a, const NameOp& b) const {
  const State ab = after(after(state, a), b);
  const State ba = after(after(state, b), a);
  if (ab.tree->hash() != ba.tree->hash()) return false;
  return hash_of(ab.done.at(a.number)) == hash_of(ba.done.at(a.number)) &&
         hash_of(ab.done.at(b.number)) == hash_of(ba.done.at(b.number));
}

/// Whether the order of this operation and of others in flight can change one of their answers.
bool History::needs_orders(const State& state, const Pending& op) const {
  for (const auto& [number, other] : pending_) {
    if (number == op.op.number || state.done.contains(number)) continue;
    if (!commute(state, op.op, other.op)) return true;
  }
  return false;
}

void History::drop_equal(std::vector<State>& states) const {
  std::map<std::vector<std::uint64_t>, bool> seen;
  std::erase_if(states, [&](const State& state) {
    std::vector<std::uint64_t> key{state.tree->hash()};
    for (const auto& [number, facts] : state.done) {
      key.push_back(number);
      const auto pending = pending_.find(number);
      const bool awaited = pending != pending_.end() && !pending->second.given_up;
      key.push_back(awaited ? hash_of(facts) : 0);
    }
    return !seen.emplace(std::move(key), true).second;
  });
}

/// Adds every state that some of the pending operations lead to in some order.
void History::reach_all(std::vector<State>& states, const std::map<NodeId, Pending>& pending, NodeId but) {
  std::vector<State> frontier = states;
  while (!frontier.empty()) {
    std::vector<State> next;
    for (const State& state : frontier) {
      for (const auto& [number, op] : pending) {
        if (number == but || state.done.contains(number)) continue;
        next.push_back(after(state, op.op));
      }
    }
    drop_equal(next);
    states.insert(states.end(), next.begin(), next.end());
    if (states.size() > kMostStates) {
      overwhelmed_ = true;
      break;
    }
    frontier = std::move(next);
  }
  drop_equal(states);
}

bool History::accept(State& state, const Pending& op, const Facts& told) const {
  const auto done = state.done.find(op.op.number);
  if (done == state.done.end()) state = after(state, op.op);
  const Facts predicted = state.done.at(op.op.number);
  state.done.erase(op.op.number);
  Tree tree = *state.tree;
  if (!agrees(tree, predicted, told)) return false;
  // Handles that were only listed before may get names by this answer.
  if (tree.hash() != state.tree->hash()) state.tree = std::make_shared<const Tree>(std::move(tree));
  return true;
}

bool History::answer(NodeId number, const Facts& told, MonoTime now) {
  const auto found = pending_.find(number);
  const Pending op = found->second;
  // A refusal waits for no disk. So changes of others that it shows may still be lost in a crash.
  const bool changed = changes(op.op.kind) && told.code == Errc::kOk;
  // Operations that began since the last checkpoint may survive a crash that loses this one.
  if (changed) remember(now);
  std::vector<State> before;
  std::vector<State> contested;
  for (State& state : states_) {
    if (!state.done.contains(number) && needs_orders(state, op)) {
      contested.push_back(state);
    } else {
      before.push_back(state);
    }
  }
  reach_all(contested, pending_, number);
  before.insert(before.end(), contested.begin(), contested.end());
  std::vector<State> next;
  for (State& state : before) {
    if (accept(state, op, told)) next.push_back(std::move(state));
  }
  if (next.empty() && contested.empty()) {  // several other operations may explain it together
    before = states_;
    reach_all(before, pending_, number);
    for (State& state : before) {
      if (accept(state, op, told)) next.push_back(std::move(state));
    }
  }
  if (next.empty()) return fail("no order of operations explains an answer", &op.op, &told);
  drop_equal(next);
  states_ = std::move(next);
  pending_.erase(number);
  if (states_.size() > kMostStates) {
    overwhelmed_ = true;
    states_.resize(kMostStates);
  }
  if (changed) remember(now);
  return true;
}

void History::give_up(NodeId number) {
  const auto found = pending_.find(number);
  if (changes(found->second.op.kind)) {
    found->second.given_up = true;
    return;
  }
  std::ignore = had_no_effect(number);
}

bool History::had_no_effect(NodeId number) {
  const auto found = pending_.find(number);
  const Pending op = found->second;
  pending_.erase(found);
  std::erase_if(states_, [&](const State& state) {
    const auto done = state.done.find(number);
    return changes(op.op.kind) && done != state.done.end() && done->second.code == Errc::kOk;
  });
  if (states_.empty()) return fail("nothing explains that a change was refused", &op.op, nullptr);
  for (State& state : states_) state.done.erase(number);
  drop_equal(states_);
  return true;
}

void History::settled(int client) {
  // Each of these operations may have taken effect, although no state has needed to assume it.
  const bool any = std::any_of(pending_.begin(), pending_.end(),
                               [client](const auto& p) { return p.second.given_up && p.second.client == client; });
  if (any) reach_all(states_, pending_, 0);
  for (auto it = pending_.begin(); it != pending_.end();) {
    if (!it->second.given_up || it->second.client != client) {
      ++it;
      continue;
    }
    for (State& state : states_) state.done.erase(it->first);
    it = pending_.erase(it);
  }
  drop_equal(states_);
}

void History::remember(MonoTime now) {
  if (checkpoints_.empty()) checkpoints_.push_back({MonoTime{}, {State{std::make_shared<const Tree>(), {}}}, {}});
  checkpoints_.push_back({now, states_, pending_});
}

void History::durable(MonoTime when) {
  while (checkpoints_.size() > 1 && checkpoints_[1].when <= when) checkpoints_.pop_front();
}

/// Adds states in which an operation in flight was done, was lost with the machine, and only its answer will still
/// arrive.
void History::add_answers_on_their_way(const std::vector<State>& before) {
  for (const auto& [number, op] : pending_) {
    if (op.given_up) continue;
    std::map<std::uint64_t, Facts> answers;
    for (const State& state : before) {
      const auto done = state.done.find(number);
      if (done != state.done.end()) answers.emplace(hash_of(done->second), done->second);
    }
    const std::vector<State> without = states_;
    for (const State& state : without) {
      if (state.done.contains(number)) continue;
      for (const auto& [hash, facts] : answers) {
        states_.push_back(state);
        states_.back().done.emplace(number, facts);
      }
    }
    drop_equal(states_);
  }
}

bool History::lost(const StoredTree& left, MonoTime now) {
  std::vector<State> candidates;
  remember(now);
  std::vector<State> last;
  for (Checkpoint& checkpoint : checkpoints_) {
    reach_all(checkpoint.states, checkpoint.pending, 0);
    last = checkpoint.states;
    for (State& state : checkpoint.states) {
      std::erase_if(state.done, [this](const auto& done) { return !pending_.contains(done.first); });
      candidates.push_back(std::move(state));
    }
  }
  drop_equal(candidates);
  states_ = std::move(candidates);
  if (!keep_matching(left)) return false;
  add_answers_on_their_way(last);
  checkpoints_.clear();  // the surviving state is on the disk
  checkpoints_.push_back({now, states_, pending_});
  return true;
}

bool History::is(const StoredTree& seen) {
  reach_all(states_, pending_, 0);
  return keep_matching(seen);
}

bool History::keep_matching(const StoredTree& seen) {
  std::vector<State> matching;
  std::string first_difference;
  std::string last_difference;
  for (State& state : states_) {
    Tree tree = *state.tree;
    std::string this_difference = seen.differs(tree, names_, targets_);
    if (this_difference.empty()) {
      matching.push_back({std::make_shared<const Tree>(std::move(tree)), state.done});
      continue;
    }
    if (first_difference.empty()) first_difference = this_difference;
    last_difference = std::move(this_difference);
  }
  if (matching.empty()) {
    return fail(fmt::format("none of {} possible states is what is there; of the first: {}; of the last: {}",
                            states_.size(), first_difference, last_difference),
                nullptr, nullptr);
  }
  states_ = std::move(matching);
  drop_equal(states_);
  return true;
}

bool History::may_be_gone(std::uint64_t handle) const {
  const auto gone = [handle](const State& state) { return state.tree->find_handle(handle) == nullptr; };
  if (std::any_of(states_.begin(), states_.end(), gone)) return true;
  const auto removes = [](const auto& pending) {
    const NameOpKind kind = pending.second.op.kind;
    return kind == NameOpKind::kUnlink || kind == NameOpKind::kRename || kind == NameOpKind::kRmdir;
  };
  return std::any_of(pending_.begin(), pending_.end(), removes);
}

bool History::fail(std::string what, const NameOp* op, const Facts* told) {
  explanation_ = std::move(what);
  if (op != nullptr && told != nullptr) {
    explanation_ += fmt::format("\n  {} was answered {}", to_string(names_, *op), to_string(names_, *told));
    Tree tree = *states_.front().tree;
    explanation_ += fmt::format("\n  the model says {}", to_string(names_, apply(tree, *op, targets_)));
  }
  for (const auto& [number, pending] : pending_) {
    if (op != nullptr && number == op->number) continue;
    explanation_ +=
        fmt::format("\n  under way{}: {}", pending.given_up ? " (given up)" : "", to_string(names_, pending.op));
  }
  explanation_ += fmt::format("\n  states: {}", states_.size());
  return false;
}

}  // namespace spate::cluster
