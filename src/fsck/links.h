// SPDX-License-Identifier: Apache-2.0
// LinkTable: how many names each of a bounded number of inodes has.
#pragma once

#include <vector>

#include "wire/check_messages.h"

namespace spate::fsck {

/// An inode of the round: what it says of its names, and how many were met.
struct Linked {
  Handle handle;
  std::uint64_t version = 0;
  std::uint32_t link_count = 0;  // of a directory 1: the name that it must have; of the root 0
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
  /// Handles must ascend from call to call: false otherwise, and nothing is added.
  bool add(const wire::InodeFact& inode);
  /// An entry leads to it. Handles of other rounds are left alone.
  void count(Handle handle);
  /// Those whose names are not as many as they should be. The table is empty afterwards.
  std::vector<Linked> take_suspects();

 private:
  std::size_t max_inodes_;
  std::vector<Linked> inodes_;
};

}  // namespace spate::fsck
