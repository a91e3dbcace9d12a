// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/stored_tree.h"

#include <fmt/format.h>

#include <charconv>

#include "server/meta/store/keys.h"
#include "server/meta/store/records.h"

namespace spate::cluster {
namespace {

struct Comparison {
  const StoredTree& stored;
  Tree& tree;
  const NameTable& names;
  const Targets& targets;
};

std::string compare_node(const Comparison& c, NodeId id, const std::string& path) {
  const Node node = *c.tree.find(id);
  const auto found = c.stored.nodes.find(node.handle);
  if (found == c.stored.nodes.end()) return fmt::format("{}: no object {}", path, node.handle);
  const StoredNode& there = found->second;
  if (there.type != node.type) return path + ": another type";
  if (there.mode != node.mode) return fmt::format("{}: mode {:o}, not {:o}", path, there.mode, node.mode);
  if (there.links != node.links) return fmt::format("{}: {} links, not {}", path, there.links, node.links);
  if (node.is_directory() && there.entries != node.entries) {
    return fmt::format("{}: {} entries, not {}", path, there.entries, node.entries);
  }
  if (node.type == FileType::kSymlink && there.target != c.targets.text(node.target)) return path + ": another target";
  for (std::uint16_t i = 0; i < kXattrNames; ++i) {
    const auto xattr = there.xattrs.find(xattr_name(i));
    const std::uint16_t value = xattr == there.xattrs.end() ? std::uint16_t{0} : xattr_number(as_bytes(xattr->second));
    if (value != node.xattrs[i]) return fmt::format("{}: xattr {} is {}, not {}", path, i, value, node.xattrs[i]);
  }
  return {};
}

std::string compare_below(const Comparison& c, NodeId directory, const std::string& path) {
  const std::vector<TreeEntry> entries = c.tree.entries();  // a copy, since binding handles changes the tree
  for (const TreeEntry& entry : entries) {
    if (entry.directory != directory) continue;
    const std::string child = path + "/" + c.names.text(entry.name);
    const auto found = c.stored.entries.find({c.tree.find(directory)->handle, c.names.text(entry.name)});
    if (found == c.stored.entries.end()) return child + " is missing";
    if (!c.tree.bind(entry.node, found->second)) return child + " is another object";
    std::string difference = compare_node(c, entry.node, child);
    if (!difference.empty()) return difference;
    if (!c.tree.find(entry.node)->is_directory()) continue;
    difference = compare_below(c, entry.node, child);
    if (!difference.empty()) return difference;
  }
  return {};
}

void add_inode(StoredTree& tree, const meta::InodeRecord& inode) {
  const Attributes& a = inode.attributes;
  if (a.link_count == 0) {
    tree.unnamed.push_back(a.handle.value);
    return;
  }
  StoredNode& node = tree.nodes[a.handle.value];
  node.type = a.type;
  node.mode = a.mode;
  node.links = a.link_count;
  node.entries = inode.is_directory() ? a.size : 0;
  node.parent = inode.parent.value;
  node.target = inode.target;
}

std::uint64_t handle_in(ByteView key) {  // the key is the kind and a big-endian number
  std::uint64_t handle = 0;
  for (std::size_t i = 1; i <= 8 && i < key.size(); ++i) handle = handle << 8U | std::to_integer<std::uint64_t>(key[i]);
  return handle;
}

}  // namespace

std::string xattr_name(std::uint16_t xattr) { return "user.x" + std::to_string(xattr); }

Bytes xattr_value(std::uint16_t value) { return to_bytes(as_bytes("value " + std::to_string(value))); }

std::uint16_t xattr_number(ByteView value) {
  const std::string_view text = as_text(value);
  std::uint16_t number = 0;
  if (text.starts_with("value ")) std::from_chars(text.data() + 6, text.data() + text.size(), number);
  return number;
}

std::string StoredTree::differs(Tree& tree, const NameTable& names, const Targets& targets) const {
  if (entries.size() != tree.entries().size()) {
    return fmt::format("{} names, not {}", entries.size(), tree.entries().size());
  }
  const Comparison comparison{*this, tree, names, targets};
  std::string difference = compare_node(comparison, kRootNode, "/");
  if (difference.empty()) difference = compare_below(comparison, kRootNode, "");
  if (difference.empty() && nodes.size() != tree.nodes().size()) {
    difference = fmt::format("{} objects, not {}", nodes.size(), tree.nodes().size());
  }
  return difference;
}

std::string StoredTree::inconsistency() const {
  std::map<std::uint64_t, std::uint32_t> links;
  std::map<std::uint64_t, std::uint64_t> entries_of;
  for (const auto& [place, handle] : entries) {
    const auto node = nodes.find(handle);
    if (node == nodes.end()) return fmt::format("{} in {} names nothing", place.second, place.first);
    if (!nodes.contains(place.first)) return fmt::format("{} is in no directory", place.second);
    ++entries_of[place.first];
    ++links[handle];
    if (node->second.type != FileType::kDirectory) continue;
    ++links[place.first];
    if (node->second.parent != place.first) return fmt::format("directory {} has another parent", handle);
  }
  for (const auto& [handle, node] : nodes) {
    const bool directory = node.type == FileType::kDirectory;
    const std::uint32_t own = !directory ? 0U : (handle == kRootHandle.value ? 2U : 1U);
    if (node.links != links[handle] + own)
      return fmt::format("object {} has {} links, not {}", handle, node.links, links[handle] + own);
    if (directory && node.entries != entries_of[handle])
      return fmt::format("directory {} has {} entries, not {}", handle, node.entries, entries_of[handle]);
  }
  return {};
}

Result<StoredTree> read_store(const trove::SimKeyvalDisk& disk) {
  StoredTree tree;
  const trove::Batch records = disk.contents();
  for (const trove::BatchWrite& record : records) {
    if (record.key.empty()) continue;
    switch (static_cast<meta::KeyKind>(record.key.front())) {
      case meta::KeyKind::kInode: {
        SPATE_TRY(const auto inode, meta::decode_record<meta::InodeRecord>(*record.value));
        add_inode(tree, inode);
        break;
      }
      case meta::KeyKind::kEntry: {
        const auto key = meta::parse_entry_key(record.key);
        if (!key) return Errc::kCorrupt;
        SPATE_TRY(const auto entry, meta::decode_record<meta::EntryRecord>(*record.value));
        tree.entries[{handle_in(record.key), std::string(key->name)}] = entry.handle.value;
        break;
      }
      default: break;
    }
  }
  for (const trove::BatchWrite& record : records) {
    if (record.key.empty() || static_cast<meta::KeyKind>(record.key.front()) != meta::KeyKind::kXattr) continue;
    const auto name = meta::parse_xattr_key(record.key);
    const auto node = tree.nodes.find(handle_in(record.key));
    if (!name || node == tree.nodes.end()) continue;
    node->second.xattrs[std::string(*name)] = std::string(as_text(ByteView(*record.value).subspan(1)));
  }
  return tree;
}

}  // namespace spate::cluster
