// SPDX-License-Identifier: Apache-2.0
// StoredTree: the contents of a name space, read from the meta server's records or by a client that walks through it.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tests/cluster/name_ops.h"
#include "trove/kvsim/sim_keyval_disk.h"

namespace spate::cluster {

struct StoredNode {
  FileType type = FileType::kRegular;
  std::uint32_t mode = 0;
  std::uint32_t links = 0;
  std::uint64_t entries = 0;  // of a directory
  std::uint64_t parent = 0;   // of a directory
  std::string target;
  std::map<std::string, std::string> xattrs;  // user.x0, ...
};

struct StoredTree {
  std::map<std::uint64_t, StoredNode> nodes;  // by handle; only objects that have a name
  std::map<std::pair<std::uint64_t, std::string>, std::uint64_t> entries;
  std::vector<std::uint64_t> unnamed;  // files without a name: open, or waiting for their removal

  bool empty() const { return nodes.empty() && entries.empty() && unnamed.empty(); }
  /// Compares this with a tree. Returns the first difference; empty: none. Notes in the tree handles that it did not
  /// know.
  std::string differs(Tree& tree, const NameTable& names, const Targets& targets) const;
  /// Checks counts and parents within this tree. Returns what is wrong; empty: nothing.
  std::string inconsistency() const;
};

/// Reads the records on a meta server's disk.
Result<StoredTree> read_store(const trove::SimKeyvalDisk& disk);

/// The name and the value of a test's attribute. xattr_number() reverses xattr_value(), and returns 0 for other values.
std::string xattr_name(std::uint16_t xattr);
Bytes xattr_value(std::uint16_t value);
std::uint16_t xattr_number(ByteView value);

}  // namespace spate::cluster
