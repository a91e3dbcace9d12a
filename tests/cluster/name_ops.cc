// SPDX-License-Identifier: Apache-2.0
// The model's operations on the name space, as POSIX defines them. Errors are checked in the order of the servers.
#include "tests/cluster/name_ops.h"

#include <algorithm>

#include "tests/cluster/name_walk.h"
#include "wire/meta_messages.h"
#include "wire/xattr_messages.h"

namespace spate::cluster {
namespace {

Facts error(Errc code) {
  Facts facts;
  facts.code = code;
  return facts;
}

Facts facts_of(const Node& node, const Targets& targets) {
  Facts facts;
  facts.object = true;
  facts.node = node.id;
  facts.handle = node.handle;
  facts.type = node.type;
  facts.mode = node.mode;
  facts.links = node.links;
  facts.entries = node.entries;
  facts.mtime = node.mtime;
  if (node.type == FileType::kSymlink) facts.target = targets.text(node.target);
  return facts;
}

void change_entries(Tree& tree, NodeId directory, int entries, int directories) {
  Node node = *tree.find(directory);
  node.entries = static_cast<std::uint32_t>(static_cast<int>(node.entries) + entries);
  node.links = static_cast<std::uint32_t>(static_cast<int>(node.links) + directories);
  node.mtime = kUnknownTime;
  tree.put(node);
}

void add(Tree& tree, const Spot& spot, const Node& node) {
  change_entries(tree, spot.directory, 1, node.is_directory() ? 1 : 0);
  tree.put_entry({spot.directory, spot.name, node.id});
  tree.put(node);
}

/// Removes one name of an object that is no directory.
void drop(Tree& tree, Node node) {
  if (--node.links == 0) {
    tree.erase(node.id);
  } else {
    tree.put(node);
  }
}

Facts make(Tree& tree, const NameOp& op, const Targets& targets, FileType type) {
  const Spot spot = Way(tree, targets, op.path).to_last();
  if (spot.code != Errc::kOk) return error(spot.code);
  if (spot.name == kDot || spot.name == kDotDot || tree.entry(spot.directory, spot.name) != 0) {
    return error(Errc::kExists);
  }
  Node node;
  node.id = op.number;
  node.type = type;
  node.mode = type == FileType::kSymlink ? 0777 : op.mode.value_or(0);
  node.links = type == FileType::kDirectory ? 2 : 1;
  node.parent = type == FileType::kDirectory ? spot.directory : 0;
  node.target = op.target;
  add(tree, spot, node);
  return facts_of(node, targets);
}

Facts open(const Node& node, const Targets& targets) {
  if (node.is_directory()) return error(Errc::kIsDirectory);
  if (node.type == FileType::kSymlink) return error(Errc::kSymlinkLoop);
  return facts_of(node, targets);
}

Facts create(Tree& tree, const NameOp& op, const Targets& targets) {
  Way way(tree, targets, op.path);
  for (;;) {
    const Spot spot = way.to_last();
    if (spot.code != Errc::kOk) return error(spot.code);
    if (spot.name == kDot || spot.name == kDotDot) return error(op.exclusive ? Errc::kExists : Errc::kIsDirectory);
    const NodeId there = tree.entry(spot.directory, spot.name);
    if (there == 0) {
      Node node;
      node.id = op.number;
      node.mode = op.mode.value_or(0);
      node.links = 1;
      add(tree, spot, node);
      return facts_of(node, targets);
    }
    if (op.exclusive) return error(Errc::kExists);
    const Node& node = *tree.find(there);
    if (node.type != FileType::kSymlink || !op.follow) return open(node, targets);
    const Errc followed = way.follow(node);
    if (followed != Errc::kOk) return error(followed);
  }
}

Facts link(Tree& tree, const NameOp& op, const Targets& targets) {
  Errc code = Errc::kOk;
  const NodeId id = walk(tree, targets, op.path, op.follow, code);
  if (id == 0) return error(code);
  const Spot spot = Way(tree, targets, op.other).to_last();
  if (spot.code != Errc::kOk) return error(spot.code);
  if (spot.name == kDot || spot.name == kDotDot || tree.entry(spot.directory, spot.name) != 0) {
    return error(Errc::kExists);
  }
  Node node = *tree.find(id);
  if (node.is_directory()) return error(Errc::kNotPermitted);
  ++node.links;
  add(tree, spot, node);
  return facts_of(node, targets);
}

Facts unlink(Tree& tree, const NameOp& op, const Targets& targets) {
  const Spot spot = Way(tree, targets, op.path).to_last();
  if (spot.code != Errc::kOk) return error(spot.code);
  if (spot.name == kDot || spot.name == kDotDot) return error(Errc::kIsDirectory);
  const NodeId id = tree.entry(spot.directory, spot.name);
  if (id == 0) return error(Errc::kNotFound);
  const Node node = *tree.find(id);
  if (node.is_directory()) return error(Errc::kIsDirectory);
  change_entries(tree, spot.directory, -1, 0);
  tree.erase_entry(spot.directory, spot.name);
  drop(tree, node);
  return {};
}

Facts rmdir(Tree& tree, const NameOp& op, const Targets& targets) {
  const Spot spot = Way(tree, targets, op.path).to_last();
  if (spot.code != Errc::kOk) return error(spot.code);
  if (op.path.parts.empty()) return error(Errc::kInvalidArgument);
  if (spot.name == kDot) return error(Errc::kInvalidArgument);
  if (spot.name == kDotDot) return error(Errc::kNotEmpty);
  const NodeId id = tree.entry(spot.directory, spot.name);
  if (id == 0) return error(Errc::kNotFound);
  const Node& node = *tree.find(id);
  if (!node.is_directory()) return error(Errc::kNotDirectory);
  if (node.entries != 0) return error(Errc::kNotEmpty);
  change_entries(tree, spot.directory, -1, -1);
  tree.erase_entry(spot.directory, spot.name);
  tree.erase(id);
  return {};
}

/// Whether `inner` is `outer` or lies below it.
bool holds(const Tree& tree, NodeId outer, NodeId inner) {
  for (NodeId at = inner; at != kRootNode; at = tree.find(at)->parent) {
    if (at == outer) return true;
  }
  return false;
}

struct Move {
  Spot from;
  Spot to;
  Node object;
  std::optional<Node> target;
  bool exchange = false;
};

Errc check_move(const Tree& tree, const Move& move, std::uint8_t flags) {
  if (move.exchange && !move.target) return Errc::kNotFound;
  if (move.target && (flags & wire::kRenameNoReplace) != 0) return Errc::kExists;
  const bool apart = move.from.directory != move.to.directory;
  if (apart && move.object.is_directory() && holds(tree, move.object.id, move.to.directory)) {
    return Errc::kInvalidArgument;
  }
  if (apart && move.exchange && move.target && move.target->is_directory() &&
      holds(tree, move.target->id, move.from.directory)) {
    return Errc::kInvalidArgument;
  }
  if (!move.target || move.exchange || move.target->id == move.object.id) return Errc::kOk;
  // A target directory that contains the moved object is not empty, whatever the object is.
  if (move.target->is_directory() && holds(tree, move.target->id, move.from.directory)) return Errc::kNotEmpty;
  if (move.target->is_directory() && !move.object.is_directory()) return Errc::kIsDirectory;
  if (!move.target->is_directory() && move.object.is_directory()) return Errc::kNotDirectory;
  return move.target->is_directory() && move.target->entries != 0 ? Errc::kNotEmpty : Errc::kOk;
}

void settle(Tree& tree, NodeId id, NodeId directory) {
  Node node = *tree.find(id);
  if (!node.is_directory()) return;
  node.parent = directory;
  tree.put(node);
}

void carry_out(Tree& tree, const Move& move) {
  const int object = move.object.is_directory() ? 1 : 0;
  const int target = move.target && move.target->is_directory() ? 1 : 0;
  change_entries(tree, move.from.directory, move.exchange ? 0 : -1, (move.exchange ? target : 0) - object);
  change_entries(tree, move.to.directory, move.exchange || move.target ? 0 : 1, object - target);
  if (move.exchange) {
    tree.put_entry({move.from.directory, move.from.name, move.target->id});
    settle(tree, move.target->id, move.from.directory);
  } else {
    tree.erase_entry(move.from.directory, move.from.name);
    if (target != 0) tree.erase(move.target->id);
    if (move.target && target == 0) drop(tree, *move.target);
  }
  tree.put_entry({move.to.directory, move.to.name, move.object.id});
  settle(tree, move.object.id, move.to.directory);
}

Facts rename(Tree& tree, const NameOp& op, const Targets& targets) {
  Move move;
  move.exchange = (op.flags & wire::kRenameExchange) != 0;
  move.from = Way(tree, targets, op.path).to_last();
  if (move.from.code != Errc::kOk) return error(move.from.code);
  move.to = Way(tree, targets, op.other).to_last();
  if (move.to.code != Errc::kOk) return error(move.to.code);
  if (move.from.name == kDot || move.from.name == kDotDot) return error(Errc::kInvalidArgument);
  if (move.to.name == kDot || move.to.name == kDotDot) {
    return error((op.flags & wire::kRenameNoReplace) != 0 ? Errc::kExists : Errc::kInvalidArgument);
  }
  const NodeId object = tree.entry(move.from.directory, move.from.name);
  if (object == 0) return error(Errc::kNotFound);
  move.object = *tree.find(object);
  const NodeId target = tree.entry(move.to.directory, move.to.name);
  if (target != 0) move.target = *tree.find(target);
  const Errc checked = check_move(tree, move, op.flags);
  if (checked != Errc::kOk) return error(checked);
  if (target != object) carry_out(tree, move);
  return {};
}

Facts on_object(Tree& tree, const NameOp& op, const Targets& targets) {
  Errc code = Errc::kOk;
  const NodeId id = walk(tree, targets, op.path, op.follow, code);
  if (id == 0) return error(code);
  Node node = *tree.find(id);
  const bool set = op.xattr < kXattrNames && node.xattrs[op.xattr] != 0;
  Facts told;
  switch (op.kind) {
    case NameOpKind::kLookup: return facts_of(node, targets);
    case NameOpKind::kOpen: return open(node, targets);
    case NameOpKind::kTruncate:
      if (node.is_directory()) return error(Errc::kIsDirectory);
      if (node.type != FileType::kRegular) return error(Errc::kInvalidArgument);
      node.mtime = kUnknownTime;
      tree.put(node);
      return {};
    case NameOpKind::kSetattr:
      if (op.mode && node.type == FileType::kSymlink) return error(Errc::kNotSupported);
      node.mode = op.mode.value_or(node.mode);
      if (node.type != FileType::kRegular) node.mtime = op.mtime.value_or(node.mtime);
      tree.put(node);
      return facts_of(node, targets);
    case NameOpKind::kGetxattr:
      if (!set) return error(Errc::kNoAttribute);
      told.xattr = node.xattrs[op.xattr];
      return told;
    case NameOpKind::kListxattr:
      for (std::size_t i = 0; i < kXattrNames; ++i) {
        if (node.xattrs[i] != 0) told.xattr = static_cast<std::uint16_t>(told.xattr | 1U << i);
      }
      return told;
    case NameOpKind::kSetxattr:
      if ((op.flags & wire::kXattrCreate) != 0 && set) return error(Errc::kExists);
      if ((op.flags & wire::kXattrReplace) != 0 && !set) return error(Errc::kNoAttribute);
      node.xattrs[op.xattr] = op.value;
      tree.put(node);
      return {};
    default:  // kRemovexattr
      if (!set) return error(Errc::kNoAttribute);
      node.xattrs[op.xattr] = 0;
      tree.put(node);
      return {};
  }
}

Facts readdir(const Tree& tree, const NameOp& op) {
  const Node* node = tree.find_handle(op.handle);
  if (node == nullptr) return error(Errc::kStaleHandle);
  if (!node->is_directory()) return error(Errc::kNotDirectory);
  Facts told;
  for (const TreeEntry& entry : tree.entries()) {
    if (entry.directory != node->id) continue;
    const Node& child = *tree.find(entry.node);
    told.listing.push_back({entry.name, child.type, child.handle, child.id});
  }
  return told;
}

bool same_listing(Tree& tree, const std::vector<Listed>& predicted, const std::vector<Listed>& told) {
  if (predicted.size() != told.size()) return false;
  for (std::size_t i = 0; i < told.size(); ++i) {
    const Listed& a = predicted[i];
    const Listed& b = told[i];
    if (a.name != b.name || a.type != b.type) return false;
    if (a.handle != 0 ? a.handle != b.handle : !tree.bind(a.node, b.handle)) return false;
  }
  return true;
}

}  // namespace

Facts apply(Tree& tree, const NameOp& op, const Targets& targets) {
  switch (op.kind) {
    case NameOpKind::kReaddir: return readdir(tree, op);
    case NameOpKind::kCreate: return create(tree, op, targets);
    case NameOpKind::kMkdir: return make(tree, op, targets, FileType::kDirectory);
    case NameOpKind::kSymlink: return make(tree, op, targets, FileType::kSymlink);
    case NameOpKind::kLink: return link(tree, op, targets);
    case NameOpKind::kUnlink: return unlink(tree, op, targets);
    case NameOpKind::kRmdir: return rmdir(tree, op, targets);
    case NameOpKind::kRename: return rename(tree, op, targets);
    default: return on_object(tree, op, targets);
  }
}

bool agrees(Tree& tree, const Facts& predicted, const Facts& told) {
  if (predicted.code != told.code) return false;
  if (told.code != Errc::kOk) return true;
  if (predicted.xattr != told.xattr || !same_listing(tree, predicted.listing, told.listing)) return false;
  if (!predicted.object || !told.object) return true;
  if (predicted.type != told.type || predicted.mode != told.mode || predicted.links != told.links) return false;
  if (told.type == FileType::kDirectory && predicted.entries != told.entries) return false;
  if (predicted.mtime != kUnknownTime && predicted.mtime != told.mtime) return false;
  if (!told.target.empty() && predicted.target != told.target) return false;
  return predicted.handle != 0 ? predicted.handle == told.handle : tree.bind(predicted.node, told.handle);
}

}  // namespace spate::cluster
