// SPDX-License-Identifier: Apache-2.0
// The operations of the protocol. Numbers are part of the wire format: append only (docs/wire.md, "Operations").
#pragma once

#include <cstdint>
#include <string_view>

namespace spate::wire {

/// X(enumerator, number, name). The request struct of X is <enumerator without k>Request, its answer ...Reply.
#define SPATE_OPERATIONS(X)                    \
  X(Hello, 1, "hello")                         \
  X(Authenticate, 2, "authenticate")           \
  X(Ping, 3, "ping")                           \
  X(Stats, 4, "stats")                         \
  X(KeepAlive, 5, "keep_alive")                \
  X(EndSession, 6, "end_session")              \
  X(ListLoads, 7, "list_loads")                \
  X(ListFileLoads, 8, "list_file_loads")       \
  X(Lookup, 20, "lookup")                      \
  X(Getattr, 21, "getattr")                    \
  X(Setattr, 22, "setattr")                    \
  X(Create, 23, "create")                      \
  X(Mkdir, 24, "mkdir")                        \
  X(Symlink, 25, "symlink")                    \
  X(Link, 26, "link")                          \
  X(Unlink, 27, "unlink")                      \
  X(Rmdir, 28, "rmdir")                        \
  X(Rename, 29, "rename")                      \
  X(Readdir, 30, "readdir")                    \
  X(Open, 31, "open")                          \
  X(Close, 32, "close")                        \
  X(Truncate, 33, "truncate")                  \
  X(Getxattr, 34, "getxattr")                  \
  X(Setxattr, 35, "setxattr")                  \
  X(Listxattr, 36, "listxattr")                \
  X(Removexattr, 37, "removexattr")            \
  X(MetaStatfs, 38, "meta_statfs")             \
  X(MetaSync, 39, "meta_sync")                 \
  X(MetaScan, 40, "meta_scan")                 \
  X(MetaRepair, 41, "meta_repair")             \
  X(MetaJudge, 42, "meta_judge")               \
  X(Lock, 43, "lock")                          \
  X(LockTest, 44, "lock_test")                 \
  X(LockCancel, 45, "lock_cancel")             \
  X(SessionEvents, 46, "session_events")       \
  X(LockReclaim, 47, "lock_reclaim")           \
  X(Access, 48, "access")                      \
  X(LookupLease, 49, "lookup_lease")           \
  X(ListLease, 50, "list_lease")               \
  X(ClusterMap, 51, "cluster_map")             \
  X(ChangeBatch, 52, "change_batch")           \
  X(ReserveServer, 53, "reserve_server")       \
  X(JoinServer, 54, "join_server")             \
  X(ListFences, 55, "list_fences")             \
  X(CloseWriters, 56, "close_writers")         \
  X(GroupMessage, 57, "group_message")         \
  X(RevokeKeys, 58, "revoke_keys")             \
  X(DataGroups, 59, "data_groups")             \
  X(Read, 60, "read")                          \
  X(Write, 61, "write")                        \
  X(DatafileStat, 62, "datafile_stat")         \
  X(DatafileTruncate, 63, "datafile_truncate") \
  X(Punch, 64, "punch")                        \
  X(DatafileSync, 65, "datafile_sync")         \
  X(DatafileRemove, 66, "datafile_remove")     \
  X(DatafileList, 67, "datafile_list")         \
  X(IoStatfs, 68, "io_statfs")                 \
  X(Fence, 69, "fence")                        \
  X(DatafileProbe, 70, "datafile_probe")       \
  X(DatafileRanges, 71, "datafile_ranges")     \
  X(DatafileCopy, 72, "datafile_copy")         \
  X(BypassLease, 73, "bypass_lease")           \
  X(BypassReturn, 74, "bypass_return")         \
  X(ExplainPath, 75, "explain_path")           \
  X(DatafileFlush, 76, "datafile_flush")       \
  X(DatafileAllocate, 77, "datafile_allocate") \
  X(ChangeGroup, 78, "change_group")           \
  X(MirrorForward, 79, "mirror_forward")       \
  X(MirrorBeacon, 80, "mirror_beacon")         \
  X(MirrorObey, 81, "mirror_obey")             \
  X(MirrorRecords, 82, "mirror_records")       \
  X(MirrorWindow, 83, "mirror_window")         \
  X(MirrorFences, 84, "mirror_fences")         \
  X(DatafileDigest, 85, "datafile_digest")

enum class Op : std::uint16_t {
#define SPATE_OP_ENUM(id, number, text) k##id = number,
  SPATE_OPERATIONS(SPATE_OP_ENUM)
#undef SPATE_OP_ENUM
};

constexpr std::string_view op_name(Op op) {
  switch (op) {
#define SPATE_OP_NAME(id, number, text) \
  case Op::k##id: return text;
    SPATE_OPERATIONS(SPATE_OP_NAME)
#undef SPATE_OP_NAME
  }
  return "unknown";
}

}  // namespace spate::wire
