// SPDX-License-Identifier: Apache-2.0
// StoredTree: a name space as it was found, in the meta server's records or by a client that walked through it.
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
  std::map<std::uint64_t, StoredNode> nodes;  // by handle; those that have a name
  std::map<std::pair<std::uint64_t, std::string>, std::uint64_t> entries;
  std::vector<std::uint64_t> unnamed;  // files without a name: open, or waiting for their removal

  bool empty() const { return nodes.empty() && entries.empty() && unnamed.empty(); }
  /// Empty when it is what the tree says; else the first difference. Handles that the tree did not know are noted in
  /// it.
  std::string differs(Tree& tree, const NameTable& names, const Targets& targets) const;
  /// Empty when counts and parents are right by themselves.
  std::string inconsistency() const;
};

/// From a meta server's disk.
Result<StoredTree> read_store(const trove::SimKeyvalDisk& disk);

/// What a test stores under an xattr's name, and its number again; 0 for anything else.
std::string xattr_name(std::uint16_t xattr);
Bytes xattr_value(std::uint16_t value);
std::uint16_t xattr_number(ByteView value);

}  // namespace spate::cluster
