// SPDX-License-Identifier: Apache-2.0
// KnownNames: says of directories made lately which names they have certainly never had.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "model/ids.h"

namespace spate::meta {

/// Whoever fills a new directory asks of each name whether it is there, and it never is: half of what creating a file
/// costs the store. So the fingerprints of all names ever put into a directory that this process has made are kept, in
/// bounded memory; what it does not know of, it has no opinion on. One executor.
class KnownNames {
 public:
  /// `slots`: fingerprints of 4 bytes, over all directories; a table is at most three quarters full.
  explicit KnownNames(std::size_t slots) : max_slots_(slots) {}

  /// A new directory, with no name in it. Its handle has never been another's.
  void made(Handle directory);
  /// To be called before a change that adds the name is committed; it may fail all the same.
  void added(Handle directory, std::uint64_t name_hash);
  /// True: no change that adds such a name has ever been tried. False: ask the store.
  bool never_had(Handle directory, std::uint64_t name_hash) const;

  /// From now on it has no opinion on any directory that is there.
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
  std::deque<Handle> by_age_;  // those of tables_, and some that have been forgotten
};

}  // namespace spate::meta
