// SPDX-License-Identifier: Apache-2.0
// TouchedByRun: the changes of one run of an operation to objects on which clients may have leases.
#pragma once

#include <string_view>
#include <vector>

#include "rpc/call.h"
#include "server/meta/store/records.h"
#include "wire/lease_messages.h"

namespace spate::meta {

/// Leases cover objects; an entry belongs to its directory's lease. Life cycle: construct -> for each run: begin() ->
/// notes.
class TouchedByRun {
 public:
  /// `changes`: the operation may change the store. `caller` outlives it.
  TouchedByRun(const rpc::Peer& caller, bool changes);

  /// A run begins: drops the notes of the run before.
  void begin();
  /// Something was put under the key, or the key was erased.
  void note_key(ByteView key, bool erased);
  /// If an inode is put twice, the last one counts.
  void note_inode(const InodeRecord& inode);
  /// The entry was put, or erased: an erased one has a record without an object.
  void note_entry(Handle directory, std::string_view name, const EntryRecord& record);

  /// Grows with each put and each erase.
  std::uint64_t keys() const { return keys_; }
  const wire::Touched& touched() const { return touched_; }
  /// The new values of what was put, for a client that keeps what it has changed (Leases::keep_changed()).
  const wire::Granted& written() const { return written_; }
  bool removes(Handle object) const;
  /// Whether somebody has the file open for writing after the run, which has put it.
  bool leaves_open_for_writing(Handle file) const;

  /// The run opens a file for reading that somebody may be writing.
  void note_reader(Handle file) { opened_ = file; }
  /// 0: none.
  Handle opened_for_reading() const { return opened_; }

 private:
  bool may_be_delegated(const InodeRecord& directory) const;

  const rpc::Peer& caller_;
  const bool caller_keeps_;
  wire::Touched touched_;
  wire::Granted written_;  // empty if the client keeps nothing
  std::vector<Handle> removed_;
  std::vector<Handle> open_for_writing_;  // of `written_`
  Handle opened_;
  std::uint64_t keys_ = 0;
};

}  // namespace spate::meta
