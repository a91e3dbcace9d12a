// SPDX-License-Identifier: Apache-2.0
// History: whether what the clients were answered about the name space can have come from operations that took effect
// one after the other, each at one instant between its request and its answer.
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

/// Keeps every state that the name space can be in. With each answer, operations under way are tried in every order
/// that may have come before it; states that contradict the answer go. None left: the servers were wrong.
///
/// An operation whose answer never came (give_up) may take effect at any later time, until settled() says otherwise. A
/// crash of the meta server's machine (lost()) takes the states back to any since the last that had to be durable.
class History {
 public:
  History(NameTable& names, Targets& targets) : names_(names), targets_(targets) {}

  /// Operations are numbered from 2 on: number 1 is the root.
  NodeId begin(NameOp op, int client);
  /// False: no order of operations explains the answer; explain() tells.
  [[nodiscard]] bool answer(NodeId number, const Facts& told, MonoTime now);
  void give_up(NodeId number);
  /// It was answered, but not by the servers, and it has changed nothing: the client went by what it had kept. False:
  /// no state is left in which that can be.
  [[nodiscard]] bool had_no_effect(NodeId number);
  /// Of this client's operations that were given up each has taken effect, or never will.
  void settled(int client);
  /// What was answered before `when` survives crashes of the meta server's machine.
  void durable(MonoTime when);

  /// The machine of the meta server crashed, and this is left. False: it is no state that may be left.
  [[nodiscard]] bool lost(const StoredTree& left, MonoTime now);
  /// This is what the name space looks like at this instant. False: that cannot be.
  [[nodiscard]] bool is(const StoredTree& seen);

  const std::string& explain() const { return explanation_; }
  /// It may be that no name leads to this object any more.
  bool may_be_gone(std::uint64_t handle) const;
  /// One of the states that it may be in: for choosing operations that make sense.
  const Tree& likely() const { return *states_.front().tree; }
  std::size_t states() const { return states_.size(); }
  /// Wrong answers would be missed: there were too many states.
  bool overwhelmed() const { return overwhelmed_; }

 private:
  using TreePtr = std::shared_ptr<const Tree>;
  struct Pending {
    NameOp op;
    int client = 0;
    bool given_up = false;
  };
  /// A state, and which of the pending operations have taken effect in it, with what answers.
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
