// SPDX-License-Identifier: Apache-2.0
// Checks the store for `spate fsck`: compares pages of records with related records, and repairs damage. Each repair is
// one transaction that looks again before it changes anything (docs/fsck.md; the invariants: docs/disk-meta.md, "What
// holds").
#pragma once

#include <unordered_map>

#include "server/meta/names/operations.h"
#include "wire/check_messages.h"

namespace spate::meta {

/// Runs a repair request: either a transaction, or a wait for work that is stuck.
job::Task<Result<Bytes>> meta_repair(MetaCore& core, rpc::Call& call, ByteView request);

// The files of the checks share the rest.

/// Records that one read fetches.
inline constexpr std::size_t kScanPage = 1000;

/// An inode, or the reason why there is none: it is missing or unreadable.
struct InodeState {
  enum class Status : std::uint8_t { kMissing, kUnreadable, kReadable };
  Status status = Status::kMissing;
  InodeRecord record;  // kReadable
  bool missing() const { return status == Status::kMissing; }
  bool readable() const { return status == Status::kReadable; }
  bool directory() const { return readable() && record.is_directory(); }
};
using InodeStates = std::unordered_map<Handle, InodeState>;

/// Reads the inode, checked in a change. kUnreadable is no error here.
job::Task<Result<InodeState>> inode_state(Operation& operation, Handle handle);
/// Looks up all these handles, repeats allowed, in one read of the operation's state (not checked).
job::Task<Result<InodeStates>> inode_states(Operation& operation, std::vector<Handle> handles);

/// The record of the counter of handles: the numbers that may have been given out.
job::Task<Result<CounterRecord>> given_handles(Operation& operation);
bool is_given(const Operation& operation, const CounterRecord& given, Handle handle);

/// Reads up to `limit` records of `range`, not checked.
job::Task<Result<trove::KeyvalCompletion>> read_page(Operation& operation, trove::KeyRange range, std::size_t limit);
/// Moves the begin of `range` past the entries that were read.
void go_on(trove::KeyRange& range, const trove::KeyvalCompletion& page);

/// Whether the directory is on a loop of parents whose smallest handle it is. Other checks report ancestors that are
/// missing or unreadable. `good`: directories known to lead to the root; the function adds to it.
job::Task<Result<bool>> heads_a_loop(Operation& operation, const InodeRecord& directory,
                                     std::unordered_map<Handle, bool>& good);

/// Finds an entry of `directory` that leads to `wanted`, other than `except`. Reads the whole directory.
job::Task<Result<std::optional<std::string>>> find_name(Operation& operation, Handle directory, Handle wanted,
                                                        std::string except);
inline job::Task<Result<std::optional<std::string>>> find_name(Operation& operation, Handle directory, Handle wanted) {
  std::string nothing;
  return find_name(operation, directory, wanted, std::move(nothing));
}

/// The path of a directory, "/" for the root; empty if a bounded search does not find it.
job::Task<Result<std::string>> path_of(Operation& operation, Handle directory);
/// The path of an entry; only its name if the directory's path is unknown.
job::Task<Result<std::string>> path_of(Operation& operation, Handle directory, std::string name);

/// Whether a directory has any name. Its inode may be missing.
job::Task<Result<bool>> has_entries(Operation& operation, Handle directory);

/// The number of an object's records of extended attributes, and the bytes of their names and values.
struct XattrCounts {
  std::uint32_t count = 0;
  std::uint32_t bytes = 0;
};
job::Task<Result<XattrCounts>> count_xattrs(Operation& operation, Handle handle);

/// The opens for writing in all open records of a file; checked in a change.
job::Task<Result<std::uint64_t>> count_writers(Operation& operation, Handle handle);

// The scans.
Outcome<wire::MetaScanReply> scan_inodes(Operation& operation, const wire::MetaScanRequest& request);
Outcome<wire::MetaScanReply> scan_entries(Operation& operation, const wire::MetaScanRequest& request);
Outcome<wire::MetaScanReply> scan_parents(Operation& operation, const wire::MetaScanRequest& request);
Outcome<wire::MetaScanReply> scan_neighbours(Operation& operation, const wire::MetaScanRequest& request);

/// The page that a scan request asks for: from `from` on, after its cursor.
job::Task<Result<trove::KeyvalCompletion>> scan_page(Operation& operation, const wire::MetaScanRequest& request,
                                                     KeyKind kind);
/// Fills the parts of the reply that all scans have.
void end_page(wire::MetaScanReply& reply, const trove::KeyvalCompletion& page);

}  // namespace spate::meta
