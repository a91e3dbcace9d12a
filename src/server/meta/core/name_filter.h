// SPDX-License-Identifier: Apache-2.0
// NameFilter: knows names that a recently created directory has certainly never had.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "model/ids.h"

namespace spate::meta {

/// A client that fills a new directory makes the server look up each name first, and the name is never there. These
/// lookups are half of the store's cost of creating a file. So this class keeps the fingerprints of all names ever put
/// into a directory that this process has created, in bounded memory. For any other directory the store must be asked.
/// One executor.
class NameFilter {
 public:
  /// `slots`: fingerprints of 4 bytes, over all directories; a table is at most three quarters full.
  explicit NameFilter(std::size_t slots) : max_slots_(slots) {}

  /// A directory was created. It has no names, and its handle is new.
  void made(Handle directory);
  /// Call it before committing a change that adds the name. The commit may still fail.
  void added(Handle directory, std::uint64_t name_hash);
  /// True: nobody has ever tried to add this name. False: ask the store.
  bool never_had(Handle directory, std::uint64_t name_hash) const;

  /// Drops all directories: the store must be asked for each from now on.
  void clear();

  std::size_t slots() const { return slots_; }

 private:
  struct Table {
    std::vector<std::uint32_t> slots;  // 0: free
    std::size_t used = 0;
  };
  void forget(Handle directory);
  void make_room(Handle wants);
  void grow(Table& table);

  const std::size_t max_slots_;
  std::size_t slots_ = 0;
  std::unordered_map<Handle, Table> tables_;
  std::deque<Handle> by_age_;  // the directories in tables_, and some that were dropped
};

}  // namespace spate::meta
