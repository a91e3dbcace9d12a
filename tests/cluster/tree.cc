// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/tree.h"

#include <algorithm>

namespace spate::cluster {
namespace {

std::uint64_t mix(std::uint64_t h, std::uint64_t v) {
  h ^= v + 0x9E3779B97F4A7C15ULL + (h << 6U) + (h >> 2U);
  h *= 0xBF58476D1CE4E5B9ULL;
  return h ^ (h >> 29U);
}

std::uint64_t hash_of(const Node& n) {
  std::uint64_t h = mix(1, n.id);
  h = mix(h, static_cast<std::uint64_t>(n.type) << 32U | n.mode);
  h = mix(h, std::uint64_t{n.links} << 32U | n.entries);
  h = mix(h, std::uint64_t{n.parent} << 32U | n.target);
  h = mix(h, n.handle);
  h = mix(h, static_cast<std::uint64_t>(n.mtime));
  for (const std::uint16_t x : n.xattrs) h = mix(h, x);
  return h;
}

std::uint64_t hash_of(const TreeEntry& e) { return mix(mix(2, std::uint64_t{e.directory} << 32U | e.node), e.name); }

struct EntryPlace {
  NodeId directory;
  NameId name;
};
bool before(const TreeEntry& entry, const EntryPlace& place) {
  return entry.directory != place.directory ? entry.directory < place.directory : entry.name < place.name;
}
bool at(const TreeEntry& entry, const EntryPlace& place) {
  return entry.directory == place.directory && entry.name == place.name;
}

}  // namespace

NameId NameTable::id(const std::string& name) {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found != names_.end()) return static_cast<NameId>(found - names_.begin());
  names_.push_back(name);
  return static_cast<NameId>(names_.size() - 1);
}

std::string to_string(const NameTable& names, const Path& path) {
  std::string text = path.relative ? "" : "/";
  for (std::size_t i = 0; i < path.parts.size(); ++i) text += (i == 0 ? "" : "/") + names.text(path.parts[i]);
  return text;
}

Tree::Tree() {
  Node root;
  root.id = root.parent = kRootNode;
  root.type = FileType::kDirectory;
  root.mode = 01777;
  root.links = 2;
  root.handle = kRootHandle.value;
  put(root);
}

const Node* Tree::find(NodeId id) const {
  const auto it = std::lower_bound(nodes_.begin(), nodes_.end(), id, [](const Node& n, NodeId i) { return n.id < i; });
  return it != nodes_.end() && it->id == id ? &*it : nullptr;
}

const Node* Tree::find_handle(std::uint64_t handle) const {
  const auto it = std::find_if(nodes_.begin(), nodes_.end(), [handle](const Node& n) { return n.handle == handle; });
  return it == nodes_.end() ? nullptr : &*it;
}

NodeId Tree::entry(NodeId directory, NameId name) const {
  const EntryPlace place{directory, name};
  const auto it = std::lower_bound(entries_.begin(), entries_.end(), place, before);
  return it != entries_.end() && at(*it, place) ? it->node : 0;
}

void Tree::put(const Node& node) {
  const auto it =
      std::lower_bound(nodes_.begin(), nodes_.end(), node.id, [](const Node& n, NodeId i) { return n.id < i; });
  hash_ ^= hash_of(node);
  if (it != nodes_.end() && it->id == node.id) {
    hash_ ^= hash_of(*it);
    *it = node;
  } else {
    nodes_.insert(it, node);
  }
}

void Tree::erase(NodeId id) {
  const auto it = std::lower_bound(nodes_.begin(), nodes_.end(), id, [](const Node& n, NodeId i) { return n.id < i; });
  if (it == nodes_.end() || it->id != id) return;
  hash_ ^= hash_of(*it);
  nodes_.erase(it);
}

void Tree::put_entry(const TreeEntry& entry) {
  const EntryPlace place{entry.directory, entry.name};
  const auto it = std::lower_bound(entries_.begin(), entries_.end(), place, before);
  hash_ ^= hash_of(entry);
  if (it != entries_.end() && at(*it, place)) {
    hash_ ^= hash_of(*it);
    *it = entry;
  } else {
    entries_.insert(it, entry);
  }
}

void Tree::erase_entry(NodeId directory, NameId name) {
  const EntryPlace place{directory, name};
  const auto it = std::lower_bound(entries_.begin(), entries_.end(), place, before);
  if (it == entries_.end() || !at(*it, place)) return;
  hash_ ^= hash_of(*it);
  entries_.erase(it);
}

bool Tree::bind(NodeId id, std::uint64_t handle) {
  const Node* node = find(id);
  if (node == nullptr) return true;
  if (node->handle != 0) return node->handle == handle;
  if (find_handle(handle) != nullptr) return false;
  Node known = *node;
  known.handle = handle;
  put(known);
  return true;
}

}  // namespace spate::cluster
