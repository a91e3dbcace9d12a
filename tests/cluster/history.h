// SPDX-License-Identifier: Apache-2.0
// History: checks the clients' answers about the name space. They must be possible for operations that take effect one
// after the other, each at one instant between its request and its answer.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/cluster/name_ops.h"
#include "tests/cluster/stored_tree.h"

namespace spate::cluster {

/// Keeps every state that the name space can be in. For each answer, it tries every possible order of the operations in
/// flight, and drops the states that contradict the answer. If none remains, the servers were wrong.
///
/// An operation whose answer never came (give_up) may take effect at any later time, until settled() is called. A crash
/// of the meta server's machine (lost()) may restore any state since the last one that had to be durable.
class History {
 public:
  History(NameTable& names, Targets& targets) : names_(names), targets_(targets) {}

  /// Returns the operation's number. Numbers begin at 2, since number 1 is the root.
  NodeId begin(NameOp op, int client);
  /// False: no order of operations explains the answer. Then explain() has the reason.
  [[nodiscard]] bool answer(NodeId number, const Facts& told, MonoTime now);
  void give_up(NodeId number);
  /// The client has refused the operation by itself, from state that it had kept, so nothing was changed. False: no
  /// state is left in which that can be.
  [[nodiscard]] bool had_no_effect(NodeId number);
  /// Each operation of this client that was given up has taken effect by now, or never will.
  void settled(int client);
  /// Changes answered before `when` survive crashes of the meta server's machine.
  void durable(MonoTime when);

  /// The meta server's machine has crashed; `left` is what its disk holds. False: no crash can leave that.
  [[nodiscard]] bool lost(const StoredTree& left, MonoTime now);
  /// The name space is exactly this at this instant. False: that cannot be.
  [[nodiscard]] bool is(const StoredTree& seen);

  const std::string& explain() const { return explanation_; }
  /// Whether in some state no name leads to this object.
  bool may_be_gone(std::uint64_t handle) const;
  /// One of the possible states, for choosing operations that make sense.
  const Tree& likely() const { return *states_.front().tree; }
  std::size_t states() const { return states_.size(); }
  /// Whether there were too many states. Wrong answers may have been missed since then.
  bool overwhelmed() const { return overwhelmed_; }

 private:
  using TreePtr = std::shared_ptr<const Tree>;
  struct Pending {
    NameOp op;
    int client = 0;
    bool given_up = false;
  };
  /// A state, with the pending operations that have taken effect in it, and their answers.
  struct State {
    TreePtr tree;
    std::map<NodeId, Facts> done;
  };
  struct Checkpoint {
    MonoTime when;
    std::vector<State> states;
    std::map<NodeId, Pending> pending;
  };

  State after(const State& state, const NameOp& op) const;
  bool commute(const State& state, const NameOp& a, const NameOp& b) const;
  bool needs_orders(const State& state, const Pending& op) const;
  void reach_all(std::vector<State>& states, const std::map<NodeId, Pending>& pending, NodeId but);
  bool accept(State& state, const Pending& op, const Facts& told) const;
  bool keep_matching(const StoredTree& seen);
  void add_answers_on_their_way(const std::vector<State>& before);
  void drop_equal(std::vector<State>& states) const;
  bool fail(std::string what, const NameOp* op, const Facts* told);
  void remember(MonoTime now);

  NameTable& names_;
  Targets& targets_;
  std::vector<State> states_{State{std::make_shared<const Tree>(), {}}};
  std::map<NodeId, Pending> pending_;
  std::deque<Checkpoint> checkpoints_;  // the first one is durable
  NodeId last_number_ = kRootNode;
  bool overwhelmed_ = false;
  std::string explanation_;
};

}  // namespace spate::cluster
