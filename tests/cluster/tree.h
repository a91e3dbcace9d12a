// SPDX-License-Identifier: Apache-2.0
// Tree: a name space in memory, small and quick to copy. The model applies operations to it, to predict the name space
// of the servers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/attributes.h"

namespace spate::cluster {

/// An object of the model: 1 is the root; any other has the number of the operation that made it.
using NodeId = std::uint32_t;
inline constexpr NodeId kRootNode = 1;

/// The number of a name (NameTable).
using NameId = std::uint16_t;
inline constexpr NameId kDot = 0;
inline constexpr NameId kDotDot = 1;

/// The names that belong to the numbers with which the model works. Names are never removed.
class NameTable {
 public:
  NameTable() : names_{".", ".."} {}
  NameId id(const std::string& name);
  const std::string& text(NameId id) const { return names_.at(id); }

 private:
  std::vector<std::string> names_;
};

/// A path from the root. The target of a symbolic link may begin at the link's directory instead.
struct Path {
  std::vector<NameId> parts;
  bool relative = false;
  friend auto operator<=>(const Path&, const Path&) = default;
};
std::string to_string(const NameTable& names, const Path& path);

inline constexpr std::size_t kXattrNames = 3;
inline constexpr std::int64_t kUnknownTime = INT64_MIN;

struct Node {
  NodeId id = 0;
  FileType type = FileType::kRegular;
  std::uint32_t mode = 0;
  std::uint32_t links = 0;
  std::uint32_t entries = 0;                        // of a directory
  NodeId parent = 0;                                // of a directory
  std::uint64_t handle = 0;                         // 0: not told by any answer yet
  std::int64_t mtime = kUnknownTime;                // as last set; kUnknownTime after a later change
  std::array<std::uint16_t, kXattrNames> xattrs{};  // 0: none
  std::uint16_t target = 0;                         // of a symbolic link: number of its path (Targets)
  bool is_directory() const { return type == FileType::kDirectory; }
};

struct TreeEntry {
  NodeId directory = 0;
  NameId name = 0;
  NodeId node = 0;
  friend auto operator<=>(const TreeEntry&, const TreeEntry&) = default;
};

/// A value. Trees with the same hash() are taken to be equal.
class Tree {
 public:
  Tree();
  const Node* find(NodeId id) const;
  const Node* find_handle(std::uint64_t handle) const;
  /// The object with this name in the directory; 0: none.
  NodeId entry(NodeId directory, NameId name) const;
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<TreeEntry>& entries() const { return entries_; }
  std::uint64_t hash() const { return hash_; }

  void put(const Node& node);
  void erase(NodeId id);
  /// Adds the entry, or replaces the one of the same name.
  void put_entry(const TreeEntry& entry);
  void erase_entry(NodeId directory, NameId name);
  /// Notes the object's handle. False: the object has another handle, or another object has this one.
  bool bind(NodeId id, std::uint64_t handle);

 private:
  std::vector<Node> nodes_;         // by id
  std::vector<TreeEntry> entries_;  // in order
  std::uint64_t hash_ = 0;
};

}  // namespace spate::cluster
