// SPDX-License-Identifier: Apache-2.0
// TouchedByRun: what one run of an operation changes that clients may keep copies of.
#pragma once

#include <string_view>
#include <vector>

#include "rpc/call.h"
#include "server/meta/store/records.h"
#include "wire/lease_messages.h"

namespace spate::meta {

/// Leases are on objects: an entry's is its directory's. Life: construct -> per run: begin() -> notes.
class TouchedByRun {
 public:
  /// `changes`: the operation may put something. `caller` outlives it.
  TouchedByRun(const rpc::Peer& caller, bool changes);

  /// A run begins: nothing is touched yet.
  void begin();
  /// Something was put under the key, or the key was erased.
  void note_key(ByteView key, bool erased);
  /// The last that is put of an inode counts.
  void note_inode(const InodeRecord& inode);
  /// The entry was put, or erased: then its record names no object.
  void note_entry(Handle directory, std::string_view name, const EntryRecord& record);

  /// Grows with everything that is put and erased.
  std::uint64_t keys() const { return keys_; }
  const wire::Touched& touched() const { return touched_; }
  /// What was put of that, for a client that keeps what it has changed (Leases::keep_changed()).
  const wire::Granted& written() const { return written_; }
  bool removes(Handle object) const;

 private:
  const rpc::Peer& caller_;
  const bool caller_keeps_;
  wire::Touched touched_;
  wire::Granted written_;  // empty when the client keeps none
  std::vector<Handle> removed_;
  std::uint64_t keys_ = 0;
};

}  // namespace spate::meta
