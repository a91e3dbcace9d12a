// SPDX-License-Identifier: Apache-2.0
// Paths through a Tree: finds the directory and the name that a path leads to, as the servers do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/cluster/tree.h"

namespace spate::cluster {

/// The targets of symbolic links, by number, since the model works with numbers.
class Targets {
 public:
  explicit Targets(NameTable& names) : names_(names) {}
  std::uint16_t number(const Path& path);
  const Path& path(std::uint16_t number) const { return paths_.at(number); }
  std::string text(std::uint16_t number) const { return to_string(names_, path(number)); }

 private:
  NameTable& names_;
  std::vector<Path> paths_;
};

/// The last component of a path, and the directory in which it is looked up.
struct Spot {
  Errc code = Errc::kOk;
  NodeId directory = kRootNode;
  NameId name = kDot;  // also for an empty path
};

/// The walk along a path through a tree. The targets of symbolic links replace the links on the way.
class Way {
 public:
  Way(const Tree& tree, const Targets& targets, const Path& path)
      : tree_(tree), targets_(targets), left_(path.parts.rbegin(), path.parts.rend()) {}

  Spot to_last() {
    if (left_.empty()) return {Errc::kOk, at_, kDot};
    while (left_.size() > 1) {
      const NameId name = left_.back();
      left_.pop_back();
      const Errc entered = enter(name);
      if (entered != Errc::kOk) return {entered, 0, kDot};
    }
    const NameId name = left_.back();
    left_.pop_back();
    return {Errc::kOk, at_, name};
  }
  /// Continues the walk, after to_last(), with the target of the link.
  Errc follow(const Node& link) {
    if (++links_ > kMaxSymlinkDepth) return Errc::kSymlinkLoop;
    const Path& target = targets_.path(link.target);
    left_.insert(left_.end(), target.parts.rbegin(), target.parts.rend());
    if (!target.relative) at_ = kRootNode;
    return Errc::kOk;
  }

 private:
  Errc enter(NameId name) {
    if (name == kDot) return Errc::kOk;
    if (name == kDotDot) {
      at_ = tree_.find(at_)->parent;
      return Errc::kOk;
    }
    const NodeId id = tree_.entry(at_, name);
    if (id == 0) return Errc::kNotFound;
    const Node& node = *tree_.find(id);
    if (node.is_directory()) {
      at_ = id;
      return Errc::kOk;
    }
    return node.type == FileType::kSymlink ? follow(node) : Errc::kNotDirectory;
  }

  const Tree& tree_;
  const Targets& targets_;
  std::vector<NameId> left_;  // last component first
  NodeId at_ = kRootNode;
  unsigned links_ = 0;
};

/// The object at the end of a path; 0: none.
NodeId node_at(const Tree& tree, const Spot& spot);
/// The object that a path names; 0: none, and `code` has the error.
NodeId walk(const Tree& tree, const Targets& targets, const Path& path, bool follow_last, Errc& code);

}  // namespace spate::cluster
