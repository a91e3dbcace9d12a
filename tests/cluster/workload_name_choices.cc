// SPDX-License-Identifier: Apache-2.0
// The workload's choice of operations on names, so that clients often use the same names.
#include <algorithm>
#include <array>
#include <numeric>

#include "dist/registry.h"
#include "tests/cluster/workload.h"
#include "wire/xattr_messages.h"

namespace spate::cluster {
namespace {

constexpr std::array<const char*, 6> kNames = {"a", "b", "c", "d", "e", "f"};
constexpr std::array<std::uint32_t, 4> kModes = {0755, 0700, 0640, 0777};

}  // namespace

NodeId Workload::some_directory() {
  const Tree& tree = scene_.history.likely();
  std::vector<NodeId> directories;
  for (const Node& node : tree.nodes()) {
    if (node.is_directory()) directories.push_back(node.id);
  }
  return directories[random_.below(directories.size())];
}

NodeId Workload::some_object(bool regular_only) {
  const Tree& tree = scene_.history.likely();
  std::vector<NodeId> objects;
  for (const Node& node : tree.nodes()) {
    if (node.id != kRootNode && (!regular_only || node.type == FileType::kRegular)) objects.push_back(node.id);
  }
  if (objects.empty()) return 0;
  // Mostly one of the same few files, so that they have contents.
  const std::size_t among =
      regular_only && random_.chance(9, 10) ? std::min<std::size_t>(objects.size(), 5) : objects.size();
  return objects[random_.below(among)];
}

Path Workload::path_of(NodeId node) {
  const Tree& tree = scene_.history.likely();
  Path path;
  for (NodeId at = node; at != kRootNode;) {
    const auto& entries = tree.entries();
    const auto found = std::find_if(entries.begin(), entries.end(), [at](const TreeEntry& e) { return e.node == at; });
    if (found == entries.end()) break;
    path.parts.insert(path.parts.begin(), found->name);
    at = found->directory;
  }
  return path;
}

/// Mostly one of the client's own names, sometimes one that other clients use, too.
Path Workload::below(Path directory) {
  const std::string name = kNames[random_.below(kNames.size())];
  const bool own = random_.chance(3, 5);
  directory.parts.push_back(scene_.names.id(own ? name + std::to_string(index_ % 3) : name));
  return directory;
}

Path Workload::some_path(bool existing) {
  if (existing && random_.chance(9, 10)) {
    const NodeId object = some_object(false);
    if (object != 0) return path_of(object);
  }
  Path path = path_of(some_directory());
  if (random_.chance(1, 40)) path.parts.push_back(kDotDot);
  if (path.parts.size() > 6) path.parts.resize(3);
  return below(std::move(path));
}

NameOp Workload::choose_rename() {
  NameOp op;
  op.kind = NameOpKind::kRename;
  op.path = some_path(true);
  op.other = some_path(random_.chance(1, 3));
  op.flags = static_cast<std::uint8_t>(random_.below(3));
  if (random_.chance(1, 6)) {  // below the moved object itself, if it is a directory with entries
    op.path = path_of(some_directory());
    op.path.parts.resize(std::min<std::size_t>(op.path.parts.size(), 1));
    for (int tries = 0; tries < 5; ++tries) {
      op.other = below(path_of(some_directory()));
      if (op.other.parts.front() == (op.path.parts.empty() ? kDot : op.path.parts.front())) break;
    }
    if (op.path.parts.empty()) op.path = some_path(true);
  }
  return op;
}

NameOp Workload::choose_change() {
  NameOp op;
  const bool crowded = scene_.history.likely().nodes().size() > 60;
  const std::uint64_t dice = random_.below(100);
  op.mode = kModes[random_.below(kModes.size())];
  op.follow = random_.chance(3, 4);
  if (dice < 40 && !(crowded && dice < 30)) {
    op.path = some_path(random_.chance(1, 6));
    if (dice < 16) {
      op.kind = NameOpKind::kCreate;
      op.exclusive = random_.chance(1, 2);
    } else if (dice < 30) {
      op.kind = NameOpKind::kMkdir;
    } else if (dice < 35) {
      op.kind = NameOpKind::kSymlink;
      op.mode.reset();
      op.other = random_.chance(1, 2) ? some_path(true) : Path{{below({}).parts.front()}, true};
      op.target = scene_.targets.number(op.other);
    } else {
      op.kind = NameOpKind::kLink;
      op.mode.reset();
      op.other = some_path(false);
      op.path = some_path(true);
    }
    return op;
  }
  op.mode.reset();
  op.path = some_path(true);
  if (dice < 55 || crowded) {
    op.kind = random_.chance(3, 5) ? NameOpKind::kUnlink : NameOpKind::kRmdir;
  } else if (dice < 78) {
    op = choose_rename();
  } else if (dice < 88) {
    op.kind = NameOpKind::kSetattr;
    op.follow = true;
    if (random_.chance(1, 2)) op.mode = kModes[random_.below(kModes.size())];
    if (!op.mode || random_.chance(1, 2)) op.mtime = static_cast<std::int64_t>(random_.below(1'000'000'000));
  } else {
    op.follow = true;
    op.xattr = static_cast<std::uint16_t>(random_.below(kXattrNames));
    op.kind = random_.chance(2, 3) ? NameOpKind::kSetxattr : NameOpKind::kRemovexattr;
    if (op.kind == NameOpKind::kSetxattr) {
      op.value = static_cast<std::uint16_t>(1 + random_.below(1000));
      op.flags = static_cast<std::uint8_t>(random_.below(3));
    }
  }
  return op;
}

NameOp Workload::choose_look() {
  NameOp op;
  op.path = some_path(true);
  op.follow = random_.chance(3, 4);
  const std::uint64_t dice = random_.below(100);
  if (dice < 55) {
    op.kind = NameOpKind::kLookup;
  } else if (dice < 75) {
    op.kind = NameOpKind::kReaddir;
    const Node* directory = scene_.history.likely().find(some_directory());
    op.handle = directory->handle == 0 ? kRootHandle.value : directory->handle;
  } else {
    op.follow = true;
    op.kind = dice < 90 ? NameOpKind::kGetxattr : NameOpKind::kListxattr;
    op.xattr = dice < 90 ? static_cast<std::uint16_t>(random_.below(kXattrNames)) : std::uint16_t{0};
  }
  return op;
}

}  // namespace spate::cluster
