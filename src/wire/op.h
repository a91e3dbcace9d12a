// SPDX-License-Identifier: Apache-2.0
// The operations of the protocol. Numbers are part of the wire format: a number is never used again (docs/wire.md,
// "Operations"). docs/adding-a-request.md describes how to add an operation.
#pragma once

#include <cstdint>
#include <string_view>

namespace spate::wire {

// A row is X(enumerator, number, name) or X(enumerator, number, name, callers). The structs <enumerator>Request and
// <enumerator>Reply are the messages. Logs and metrics use the name. The meta server executes an operation of the first
// two lists by the function `name` (server/meta/names/operations.h). rpc::Access::<callers> says who may ask for it.

/// These change nothing.
#define SPATE_META_READS(X)                  \
  X(Lookup, 20, lookup, kReaders)            \
  X(Getattr, 21, getattr, kReaders)          \
  X(Readdir, 30, readdir, kReaders)          \
  X(Getxattr, 34, getxattr, kReaders)        \
  X(Listxattr, 36, listxattr, kReaders)      \
  X(MetaStatfs, 38, meta_statfs, kReaders)   \
  X(MetaSync, 39, meta_sync, kReaders)       \
  X(MetaScan, 40, meta_scan, kServersOnly)   \
  X(MetaJudge, 42, meta_judge, kServersOnly) \
  X(Access, 48, access, kReaders)            \
  X(LookupLease, 49, lookup_lease, kReaders) \
  X(ListLease, 50, list_lease, kReaders)     \
  X(ClusterMap, 51, cluster_map, kReaders)   \
  X(DataGroups, 59, data_groups, kReaders)

/// These have an effect once, however often they are sent: the meta server keeps the answer with the effect. open and
/// close check by themselves that a key for reading only asks for nothing else.
#define SPATE_META_CHANGES(X)                      \
  X(Setattr, 22, setattr, kWriters)                \
  X(Create, 23, create, kWriters)                  \
  X(Mkdir, 24, mkdir, kWriters)                    \
  X(Symlink, 25, symlink, kWriters)                \
  X(Link, 26, link, kWriters)                      \
  X(Unlink, 27, unlink, kWriters)                  \
  X(Rmdir, 28, rmdir, kWriters)                    \
  X(Rename, 29, rename, kWriters)                  \
  X(Open, 31, open, kReaders)                      \
  X(Close, 32, close, kReaders)                    \
  X(Truncate, 33, truncate, kWriters)              \
  X(Setxattr, 35, setxattr, kWriters)              \
  X(Removexattr, 37, removexattr, kWriters)        \
  X(ChangeBatch, 52, change_batch, kWriters)       \
  X(CloseWriters, 56, close_writers, kWriters)     \
  X(ReserveHandles, 88, reserve_handles, kWriters) \
  X(QueuedChanges, 89, queued_changes, kWriters)

/// All operations. The role that serves an operation of this list has a row for it in its operation table.
#define SPATE_OPERATIONS(X)                  \
  SPATE_META_READS(X)                        \
  SPATE_META_CHANGES(X)                      \
  X(Hello, 1, hello)                         \
  X(Authenticate, 2, authenticate)           \
  X(Ping, 3, ping)                           \
  X(Stats, 4, stats)                         \
  X(KeepAlive, 5, keep_alive)                \
  X(EndSession, 6, end_session)              \
  X(ListLoads, 7, list_loads)                \
  X(ListFileLoads, 8, list_file_loads)       \
  X(MetaRepair, 41, meta_repair)             \
  X(Lock, 43, lock)                          \
  X(LockTest, 44, lock_test)                 \
  X(LockCancel, 45, lock_cancel)             \
  X(SessionEvents, 46, session_events)       \
  X(LockReclaim, 47, lock_reclaim)           \
  X(ReserveServer, 53, reserve_server)       \
  X(JoinServer, 54, join_server)             \
  X(ListFences, 55, list_fences)             \
  X(GroupMessage, 57, group_message)         \
  X(RevokeKeys, 58, revoke_keys)             \
  X(Read, 60, read)                          \
  X(Write, 61, write)                        \
  X(DatafileStat, 62, datafile_stat)         \
  X(DatafileTruncate, 63, datafile_truncate) \
  X(Punch, 64, punch)                        \
  X(DatafileSync, 65, datafile_sync)         \
  X(DatafileRemove, 66, datafile_remove)     \
  X(DatafileList, 67, datafile_list)         \
  X(IoStatfs, 68, io_statfs)                 \
  X(Fence, 69, fence)                        \
  X(DatafileProbe, 70, datafile_probe)       \
  X(DatafileRanges, 71, datafile_ranges)     \
  X(DatafileCopy, 72, datafile_copy)         \
  X(BypassLease, 73, bypass_lease)           \
  X(BypassReturn, 74, bypass_return)         \
  X(ExplainPath, 75, explain_path)           \
  X(DatafileFlush, 76, datafile_flush)       \
  X(DatafileAllocate, 77, datafile_allocate) \
  X(ChangeGroup, 78, change_group)           \
  X(MirrorForward, 79, mirror_forward)       \
  X(MirrorBeacon, 80, mirror_beacon)         \
  X(MirrorObey, 81, mirror_obey)             \
  X(MirrorRecords, 82, mirror_records)       \
  X(MirrorWindow, 83, mirror_window)         \
  X(MirrorFences, 84, mirror_fences)         \
  X(DatafileDigest, 85, datafile_digest)     \
  X(CopyRenew, 86, copy_renew)               \
  X(UsedNumbers, 87, used_numbers)

enum class Op : std::uint16_t {
#define SPATE_OP_ENUM(id, number, ...) k##id = number,
  SPATE_OPERATIONS(SPATE_OP_ENUM)
#undef SPATE_OP_ENUM
};

/// Whether a request changes names or attributes because its caller asks for that. Opens and closes do not: a program
/// that only reads needs them.
constexpr bool changes_names(Op op) {
  constexpr bool kWriters = true;  // the last word of the rows
  constexpr bool kReaders = false;
  switch (op) {
#define SPATE_OP_CHANGES(id, number, name, callers) \
  case Op::k##id: return callers && Op::k##id != Op::kCloseWriters;
    SPATE_META_CHANGES(SPATE_OP_CHANGES)
#undef SPATE_OP_CHANGES
    default: return false;
  }
}

constexpr std::string_view op_name(Op op) {
  switch (op) {
#define SPATE_OP_NAME(id, number, name, ...) \
  case Op::k##id: return #name;
    SPATE_OPERATIONS(SPATE_OP_NAME)
#undef SPATE_OP_NAME
  }
  return "unknown";
}

}  // namespace spate::wire
