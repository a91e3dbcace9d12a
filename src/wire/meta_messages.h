// SPDX-License-Identifier: Apache-2.0
// Requests to a meta server (docs/wire.md, "Name space").
#pragma once

#include "wire/session_messages.h"

namespace spate::wire {

/// Names an object that exists or is to be created: a path below a directory. The server walks it in the operation's
/// own transaction, so that an operation by path is one request. An empty path is `start` itself.
struct NamePath {
  enum Flags : std::uint8_t {
    kFollowLast = 1,   // follow a symbolic link at the path's end
    kRootedLinks = 2,  // absolute links begin at the file system's root; otherwise they end the walk with kCrossDevice
                       // and the link's target as context
  };
  Handle start = kRootHandle;
  // Components between '/', any bytes but NUL; at most kMaxPathBytes. The server walks "." and "..".
  std::string path;
  std::uint8_t flags = 0;
  template <typename A>
  void fields(A& a) {
    a(start, path, flags);
  }
};

/// An object as lookup, getattr and most changes return it.
struct ObjectReply {
  static constexpr std::string_view kName = "object reply";
  Attributes attributes;
  std::optional<Layout> layout;  // regular files
  std::string target;            // symbolic links
  template <typename A>
  void fields(A& a) {
    a(attributes, layout, target);
  }
};

struct LookupRequest {
  static constexpr Op kOp = Op::kLookup;
  static constexpr std::string_view kName = "lookup request";
  NamePath where;
  template <typename A>
  void fields(A& a) {
    a(where);
  }
};
using LookupReply = ObjectReply;

/// Checks the caller's rights on an object. kPermissionDenied: it lacks one of them. access(2) and the
/// opening of a directory use it.
struct AccessRequest {
  static constexpr Op kOp = Op::kAccess;
  static constexpr std::string_view kName = "access request";
  NamePath where;
  std::uint8_t want = 0;  // bits of a mode: 4 read, 2 write, 1 execute
  template <typename A>
  void fields(A& a) {
    a(where, want);
  }
};
using AccessReply = ObjectReply;

struct GetattrRequest {
  static constexpr Op kOp = Op::kGetattr;
  static constexpr std::string_view kName = "getattr request";
  Handle handle;
  template <typename A>
  void fields(A& a) {
    a(handle);
  }
};
using GetattrReply = ObjectReply;

/// The combined state of all datafiles. The caller has asked all of them.
struct DataSummary {
  std::uint64_t size = 0;  // logical, bytes
  std::uint64_t allocated_bytes = 0;
  WallTime mtime;
  std::uint64_t change_sum = 0;
  template <typename A>
  void fields(A& a) {
    a(size, allocated_bytes, mtime, change_sum);
  }
};

/// Sets the given attributes. Times: a value, or "now" on the server's clock.
struct SetattrRequest {
  static constexpr Op kOp = Op::kSetattr;
  static constexpr std::string_view kName = "setattr request";
  NamePath where;
  std::optional<std::uint32_t> mode;
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> gid;
  std::optional<WallTime> atime;
  std::optional<WallTime> mtime;
  bool atime_now = false;
  bool mtime_now = false;
  std::optional<WallTime> btime;
  /// If mtime is set on a file whose size is not known: the datafiles' present state, so that only later writes
  /// override mtime.
  std::optional<DataSummary> data;
  template <typename A>
  void fields(A& a) {
    a(where, mode, uid, gid, atime, mtime, atime_now, mtime_now, btime, data);
  }
};
using SetattrReply = ObjectReply;

/// Requested parameters of the layout at creation. Absent ones come from the directory (xattr user.spate.*), then from
/// the file system.
struct LayoutHints {
  std::optional<std::uint64_t> strip_bytes;
  std::optional<std::uint32_t> slot_count;  // 0 = all targets
  std::optional<TargetId> first_target;     // PVFS's base
  std::vector<TargetId> targets;            // these targets, in this order; overrides the two above
  /// Sent behind a create request that has kOpenDistribution.
  std::optional<DistributionSpec> distribution;
  template <typename A>
  void fields(A& a) {
    a(strip_bytes, slot_count, first_target, targets);
  }
};

enum OpenFlags : std::uint8_t {
  kOpenRead = 1,
  kOpenWrite = 2,
  kOpenTruncate = 4,   // truncates an existing file to 0 (an intent, as Truncate)
  kOpenExclusive = 8,  // create: kExists if it exists
  kOpenExecute = 16,   // open: also checks the right to execute
  // Create: makes a file without a name; `where` is its directory. With kOpenExclusive it never gets a name.
  kOpenTemporary = 32,
  // Open: gives a capability for reading, but counts no open, so nothing is closed. The file may be removed at any
  // time.
  kOpenUncounted = 32,
  kOpenByUser = 64,         // open: root's session opens it for another user, whose writes clear set-uid and set-gid
  kOpenDistribution = 128,  // create: the request ends with LayoutHints::distribution
  kOpenNotesRead = 128,     // open, with kOpenUncounted: sets atime, since the file is read now
};

/// Whether an open may have these flags together. Nobody is told when an uncounted open ends, so it may only read.
constexpr bool fit_open(std::uint8_t flags) {
  if ((flags & (kOpenUncounted | kOpenNotesRead)) == 0) return true;
  return (flags & ~kOpenNotesRead) == (kOpenUncounted | kOpenRead);
}
/// Whether a create may have these flags together. A file without a name is of use only to a writer, and the server
/// derives itself for whom a file is made.
constexpr bool fit_create(std::uint8_t flags) {
  if ((flags & kOpenByUser) != 0) return false;
  return (flags & kOpenTemporary) == 0 || (flags & kOpenWrite) != 0;
}

/// Attributes of a new object. Absent times are now; an absent owner is the caller (for the group, a setgid directory's
/// group).
struct NewAttributes {
  /// A bit beside the mode: uid and gid are those of a user for whom the object is made, so a setgid directory's group
  /// takes precedence.
  static constexpr std::uint32_t kOnBehalf = 1U << 16U;
  /// The user's umask begins at this bit, unless the client has applied it to the mode. It applies unless the directory
  /// has a default access control list.
  static constexpr unsigned kUmaskShift = 20;
  std::uint32_t mode = 0;            // 0..07777, with the bits above
  std::optional<std::uint32_t> uid;  // other than the caller's: only for uid 0
  std::optional<std::uint32_t> gid;
  std::optional<WallTime> atime;
  std::optional<WallTime> mtime;
  template <typename A>
  void fields(A& a) {
    a(mode, uid, gid, atime, mtime);
  }
};

/// Creates a regular file (or opens the existing one, unless exclusive) and opens it if `open_flags` asks for rights.
/// The client sends one request, and none to io servers.
struct CreateRequest {
  static constexpr Op kOp = Op::kCreate;
  static constexpr std::string_view kName = "create request";
  NamePath where;
  FileType type = FileType::kRegular;  // or fifo, socket, device (never opened)
  std::uint64_t device = 0;
  NewAttributes attributes;
  LayoutHints layout;
  std::uint8_t open_flags = 0;
  template <typename A>
  void fields(A& a) {
    a(where, type, device, attributes, layout, open_flags);
    if ((open_flags & kOpenDistribution) != 0) a(layout.distribution);
  }
};
struct OpenReply {
  static constexpr std::string_view kName = "open reply";
  ObjectReply object;
  Capability capability;  // with the requested rights; kNone if the create did not open it
  bool created = false;
  /// kOpenTruncate on an existing file: its truncation has been done.
  bool truncated = false;
  template <typename A>
  void fields(A& a) {
    a(object, capability, created, truncated);
  }
};
using CreateReply = OpenReply;

struct OpenRequest {
  static constexpr Op kOp = Op::kOpen;
  static constexpr std::string_view kName = "open request";
  NamePath where;
  std::uint8_t open_flags = 0;
  /// Asks for a new capability for a file that this session has open, since the old one expires. It does not count as
  /// another open.
  bool renew = false;
  template <typename A>
  void fields(A& a) {
    a(where, open_flags, renew);
  }
};

/// Ends one open. A writer reports the state of the data, and may set times in the same request (cp -p). An atime
/// alone, for an open for reading, is the time of the last read: any caller may report it, and it only moves atime
/// forward.
struct CloseRequest {
  static constexpr Op kOp = Op::kClose;
  static constexpr std::string_view kName = "close request";
  Handle handle;
  Rights rights = Rights::kNone;  // as opened
  /// The datafiles' state after the last write through this open. The meta server uses it only if no other open for
  /// writing overlapped with it. Otherwise it asks the io servers.
  std::optional<DataSummary> data;
  std::optional<WallTime> atime;
  std::optional<WallTime> mtime;
  std::optional<std::uint32_t> mode;
  template <typename A>
  void fields(A& a) {
    a(handle, rights, data, atime, mtime, mode);
  }
};
using CloseReply = ObjectReply;

/// Closes the last of several overlapping opens for writing, all of one client. `close.data` is the datafiles' state
/// after the last write through any of them. The meta server uses it only if the file has had no other open for writing
/// since the first of them.
struct CloseWritersRequest {
  static constexpr Op kOp = Op::kCloseWriters;
  static constexpr std::string_view kName = "close of writers request";
  CloseRequest close;
  std::uint32_t opens = 1;  // including this one
  template <typename A>
  void fields(A& a) {
    a(close, opens);
  }
};
using CloseWritersReply = ObjectReply;

struct MkdirRequest {
  static constexpr Op kOp = Op::kMkdir;
  static constexpr std::string_view kName = "mkdir request";
  NamePath where;
  NewAttributes attributes;
  template <typename A>
  void fields(A& a) {
    a(where, attributes);
  }
};
using MkdirReply = ObjectReply;

struct SymlinkRequest {
  static constexpr Op kOp = Op::kSymlink;
  static constexpr std::string_view kName = "symlink request";
  NamePath where;
  std::string target;
  NewAttributes attributes;
  template <typename A>
  void fields(A& a) {
    a(where, target, attributes);
  }
};
using SymlinkReply = ObjectReply;

struct LinkRequest {
  static constexpr Op kOp = Op::kLink;
  static constexpr std::string_view kName = "link request";
  NamePath existing;
  NamePath where;
  template <typename A>
  void fields(A& a) {
    a(existing, where);
  }
};
using LinkReply = ObjectReply;

struct UnlinkRequest {
  static constexpr Op kOp = Op::kUnlink;
  static constexpr std::string_view kName = "unlink request";
  NamePath where;
  template <typename A>
  void fields(A& a) {
    a(where);
  }
};
using UnlinkReply = ObjectReply;  // the state after it: link_count 0 if this was the last name

struct RmdirRequest {
  static constexpr Op kOp = Op::kRmdir;
  static constexpr std::string_view kName = "rmdir request";
  NamePath where;
  template <typename A>
  void fields(A& a) {
    a(where);
  }
};
using RmdirReply = Empty;

enum RenameFlags : std::uint8_t { kRenameNoReplace = 1, kRenameExchange = 2 };

struct RenameRequest {
  static constexpr Op kOp = Op::kRename;
  static constexpr std::string_view kName = "rename request";
  NamePath from;
  NamePath to;
  std::uint8_t flags = 0;
  template <typename A>
  void fields(A& a) {
    a(from, to, flags);
  }
};
using RenameReply = Empty;

struct ReaddirRequest {
  static constexpr Op kOp = Op::kReaddir;
  static constexpr std::string_view kName = "readdir request";
  Handle handle;
  std::uint64_t cookie = 0;       // 0: from the beginning; else the cookie of the last entry seen
  std::uint32_t max_entries = 0;  // 0: as many as fit the reply room
  bool attributes = false;
  template <typename A>
  void fields(A& a) {
    a(handle, cookie, max_entries, attributes);
  }
};
struct DirectoryEntry {
  std::string name;
  Handle handle;
  FileType type = FileType::kRegular;
  /// Stable while others add and remove entries. Entries with equal cookies (a hash collision) always come together.
  std::uint64_t cookie = 0;
  std::optional<Attributes> attributes;
  std::optional<Layout> layout;  // with attributes of a regular file whose size is not known
  template <typename A>
  void fields(A& a) {
    a(name, handle, type, cookie, attributes, layout);
  }
};
struct ReaddirReply {
  static constexpr std::string_view kName = "readdir reply";
  std::vector<DirectoryEntry> entries;  // without "." and ".."
  bool end = false;
  Handle parent;  // for ".."
  template <typename A>
  void fields(A& a) {
    a(entries, end, parent);
  }
};

/// The reply comes when the truncation is done: the meta server records an intent, lets the io servers cut the
/// datafiles, and drops the intent.
struct TruncateRequest {
  static constexpr Op kOp = Op::kTruncate;
  static constexpr std::string_view kName = "truncate request";
  NamePath where;
  /// The caller has it open for writing, so the mode is not checked.
  bool by_open_file = false;
  std::uint64_t size = 0;
  template <typename A>
  void fields(A& a) {
    a(where, by_open_file, size);
  }
};
using TruncateReply = ObjectReply;

}  // namespace spate::wire
