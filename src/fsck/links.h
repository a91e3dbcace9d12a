// SPDX-License-Identifier: Apache-2.0
// LinkTable: counts the names of a bounded number of inodes.
#pragma once

#include <vector>

#include "wire/check_messages.h"

namespace spate::fsck {

/// An inode of the round: its recorded number of names, and the names that were found.
struct Linked {
  Handle handle;
  std::uint64_t version = 0;
  std::uint32_t link_count = 0;  // of a directory 1: it must have one name; of the root 0
  std::uint32_t names = 0;
  bool directory = false;
};

/// Filled in the order of handles, then asked for each entry: O(log n). 32 bytes an inode.
class LinkTable {
 public:
  explicit LinkTable(std::size_t max_bytes);

  bool full() const { return inodes_.size() >= max_inodes_; }
  bool empty() const { return inodes_.empty(); }
  Handle first() const { return inodes_.front().handle; }
  Handle last() const { return inodes_.back().handle; }
  /// Handles must ascend from call to call. Otherwise it returns false and adds nothing.
  bool add(const wire::InodeFact& inode);
  /// Counts an entry that leads to the handle. Handles of other rounds are ignored.
  void count(Handle handle);
  /// The inodes with a wrong number of names. Empties the table.
  std::vector<Linked> take_suspects();

 private:
  std::size_t max_inodes_;
  std::vector<Linked> inodes_;
};

}  // namespace spate::fsck
