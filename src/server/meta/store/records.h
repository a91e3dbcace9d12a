// SPDX-License-Identifier: Apache-2.0
// The records of the meta server's store and their codecs (docs/disk-meta.md, "Records"). Each begins with a version
// byte.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/attributes.h"
#include "model/capability.h"
#include "model/cluster_map.h"
#include "model/data_group.h"
#include "model/layout.h"
#include "server/meta/store/acl.h"
#include "wire/key_messages.h"
#include "wire/op.h"
#include "wire/queue_messages.h"

namespace spate::meta {

/// Identifies the store. Each store has one, under global_key("superblock").
struct Superblock {
  FsId fs;
  std::uint16_t shard = 0;
  WallTime made;
  std::uint64_t name_seed = 0;  // NameHash
  std::uint8_t name_bits = 63;
  friend bool operator==(const Superblock&, const Superblock&) = default;
};

/// The servers and targets of this file system. Each store has one, under global_key("cluster"). It has the servers of
/// spate.toml, and those that were added since. If both name a server, spate.toml counts.
struct ClusterRecord {
  ClusterMap map;
  std::vector<ServerId> added;    // the servers of `map` that joined by themselves; ascending
  std::uint32_t next_server = 1;  // larger than every number that a server has had or that was reserved
  friend bool operator==(const ClusterRecord&, const ClusterRecord&) = default;
};

/// The keys of users that were revoked, by id. Each store has at most one, under global_key("revoked_keys").
struct RevokedKeysRecord {
  std::vector<wire::RevokedKey> keys;  // ascending, at most wire::kMaxRevoked
  std::vector<WallTime> ends;          // of `keys`, in their order; 0: no end, or not known. Empty: all are 0
  friend bool operator==(const RevokedKeysRecord&, const RevokedKeysRecord&) = default;
};

/// The numbers from `begin` on, below `end`.
struct NumberRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  template <typename A>
  void fields(A& a) {
    a(begin, end);
  }
  friend bool operator==(const NumberRange&, const NumberRange&) = default;
};

/// A persistent counter: all numbers below `next` may have been given out.
struct CounterRecord {
  static constexpr std::size_t kMaxSkipped = 64;
  std::uint64_t next = 0;
  /// Numbers below `next` that this store has not given out: a later state of it has, before a backup took its place.
  std::vector<NumberRange> skipped = {};  // ascending, at most kMaxSkipped

  bool is_given(std::uint64_t number) const;
  friend bool operator==(const CounterRecord&, const CounterRecord&) = default;
};

/// Hints for the layout of files created in a directory (xattrs user.spate.*). A new sub-directory gets a copy.
struct DirectoryHints {
  std::optional<std::uint64_t> strip_bytes;
  std::optional<std::uint32_t> strip_count;  // 0 = all targets
  std::optional<TargetId> first_target;
  std::optional<DistributionSpec> distribution;
  std::optional<std::uint32_t> replicas;    // 1..kMaxReplicas
  std::optional<std::uint32_t> min_copies;  // 1..kMaxReplicas; a file's group gets at most the number of its copies
  bool empty() const {
    return !strip_bytes && !strip_count && !first_target && !distribution && !replicas && !min_copies;
  }
  friend bool operator==(const DirectoryHints&, const DirectoryHints&) = default;
};

/// An object of the name space. Regular files have a layout, symbolic links a target.
struct InodeRecord {
  /// link_count 0: no name is left, but some session still has it open. The size of a directory is the number of its
  /// entries.
  Attributes attributes;
  std::optional<Layout> layout;
  std::string target;
  /// A directory that has a name of the object. The root is its own parent. 0, but of no directory: unknown, since the
  /// object has no name, or has lost its name there and kept others, or an older version of Spate has made it.
  Handle parent;
  /// A directory that has one more name of an object with several names, beside the one in `parent`. 0: unknown.
  Handle second_parent;
  /// A directory's counter grows with every entry added, removed or replaced. 1 for a file without a name that may get
  /// one.
  std::uint64_t entries_version = 0;
  DirectoryHints hints;  // of a directory
  /// Opens for writing, of all sessions; while > 0 the datafiles determine size and mtime.
  std::uint32_t write_opens = 0;
  // How many opens for writing there have been since write_opens was 0. 0: the writers' own reports about the datafiles
  // may be out of date.
  std::uint32_t writers = 0;
  bool truncating = false;  // there is a truncate intent
  bool keep_mtime = false;  // the last close set mtime, but the datafiles have not been asked for change_sum yet
  // Grows each time that write_opens leaves 0. 0: nobody has ever opened the file for writing.
  std::uint64_t write_generation = 0;
  std::uint64_t truncate_generation = 0;  // of the last truncate intent
  std::uint32_t xattr_count = 0;
  std::uint32_t xattr_bytes = 0;  // names and values together
  /// A user other than root has had it open for writing since its size was last known. Then set-uid and set-gid hold
  /// only while change_sum agrees with the datafiles (sizes.h).
  bool written_by_users = false;
  Acl acl;          // only if it grants more than a mode can; else empty
  Acl default_acl;  // of a directory: new objects in it inherit this

  Handle handle() const { return attributes.handle; }
  /// The file was created without a name (O_TMPFILE) and may still get one. A file that has had a name and lost it gets
  /// none again.
  bool may_be_named() const { return is_regular() && entries_version == 1; }
  void may_be_named(bool may) { entries_version = may ? 1 : 0; }
  /// False: nobody has ever been allowed to write the file, so it has no datafile on any target.
  bool may_have_data() const { return is_regular() && (write_generation > 0 || truncate_generation > 0); }
  bool is_directory() const { return attributes.type == FileType::kDirectory; }
  bool is_regular() const { return attributes.type == FileType::kRegular; }
  bool is_symlink() const { return attributes.type == FileType::kSymlink; }
  friend bool operator==(const InodeRecord&, const InodeRecord&) = default;
};

/// A name in a directory.
struct EntryRecord {
  Handle handle;
  FileType type = FileType::kRegular;
  friend bool operator==(const EntryRecord&, const EntryRecord&) = default;
};

enum class SessionState : std::uint8_t {
  kOpen = 1,
  kEnding = 2,   // it has ended for good: first everything it held is released, then this record is erased
  kExpired = 3,  // its lease expired; it may come back in this record's epoch
};

struct SessionRecord {
  ClientId client;
  std::uint32_t epoch = 1;
  std::uint32_t released_epoch = 1;  // everything that lower epochs held has been fenced and released
  SessionState state = SessionState::kOpen;
  Credential credential;
  std::string description;
  WallTime opened;
  WallTime ended;                 // kExpired: when
  std::optional<KeyId> user_key;  // the key with which the client has joined; none: the client key
  friend bool operator==(const SessionRecord&, const SessionRecord&) = default;
};

/// How often one epoch of a session has one file open with the right to read, and to write. An open for both counts in
/// both.
struct OpenRecord {
  std::uint32_t readers = 0;
  std::uint32_t writers = 0;
  friend bool operator==(const OpenRecord&, const OpenRecord&) = default;
};

/// A file without names and opens, whose datafiles are still to be removed.
struct RemovalRecord {
  Layout layout;
  WallTime since;
  friend bool operator==(const RemovalRecord&, const RemovalRecord&) = default;
};

/// The request that asked for a truncation. If the truncation is given up, this request gets the error. The locks of
/// its session pass to nobody else before the truncation is over.
struct TruncateAsker {
  ClientId client;  // 0: none
  std::uint32_t epoch = 0;
  std::uint16_t slot = 0;  // wire::RequestId::kNoSlot: no answer is to be changed
  std::uint64_t sequence = 0;
  Rights opened = Rights::kNone;  // the request has also opened the file, with these rights
  friend bool operator==(const TruncateAsker&, const TruncateAsker&) = default;
};

/// A truncation that has begun. It is carried out again after any crash.
struct TruncateIntent {
  std::uint64_t size = 0;
  std::uint64_t generation = 0;
  WallTime when;
  Layout layout;
  TruncateAsker asker{};
  /// If the file is to grow and nobody was writing it: its size until the datafiles have grown.
  std::optional<std::uint64_t> before{};
  TraceId trace{};  // not stored: of the request that asked for it, as long as this process runs
  friend bool operator==(const TruncateIntent&, const TruncateIntent&) = default;
};

/// A file that nobody writes any more. Intent recovery must still read its size and mtime from the datafiles.
struct UnsettledRecord {
  WallTime since;
  friend bool operator==(const UnsettledRecord&, const UnsettledRecord&) = default;
};

/// The answer to a client's request, kept until the next request of the same slot.
struct AnswerRecord {
  std::uint64_t sequence = 0;
  wire::Op op = wire::Op::kPing;
  Errc status = Errc::kOk;
  std::string context;  // of an error
  Bytes body;           // the encoded reply of a success
  Handle truncates;     // the answer waits until the truncation of this file has been done; 0: it does not wait
  friend bool operator==(const AnswerRecord&, const AnswerRecord&) = default;
};

/// State of a session that queues changes (docs/wire.md, "Delegated directories").
struct QueueRecord {
  std::uint32_t epoch = 0;  // in which the ranges were given
  std::uint64_t last = 0;   // number of the session's last change; 0: none yet
  /// Numbers of handles that the session may still give to new objects; ascending, at most wire::kMostRanges.
  std::vector<NumberRange> ranges;

  /// Uses up this number, and all below it. False: it is in none of the ranges.
  bool take(std::uint64_t number);
  friend bool operator==(const QueueRecord&, const QueueRecord&) = default;
};

/// Encodes the record as it is stored. Overwrites `out`.
void encode_record(const Superblock& record, Bytes& out);
void encode_record(const ClusterRecord& record, Bytes& out);
void encode_record(const CounterRecord& record, Bytes& out);
void encode_record(const DataGroup& record, Bytes& out);
void encode_record(const RevokedKeysRecord& record, Bytes& out);
void encode_record(const InodeRecord& record, Bytes& out);
void encode_record(const EntryRecord& record, Bytes& out);
void encode_record(const SessionRecord& record, Bytes& out);
void encode_record(const OpenRecord& record, Bytes& out);
void encode_record(const RemovalRecord& record, Bytes& out);
void encode_record(const TruncateIntent& record, Bytes& out);
void encode_record(const UnsettledRecord& record, Bytes& out);
void encode_record(const AnswerRecord& record, Bytes& out);
void encode_record(const QueueRecord& record, Bytes& out);

/// Fails with kFormatTooNew for a version that this build does not know, with kCorrupt for anything out of range, and
/// with nothing else. Instantiated for every record above.
template <typename Record>
Result<Record> decode_record(ByteView bytes);

template <typename Record>
Bytes encoded(const Record& record) {
  Bytes out;
  encode_record(record, out);
  return out;
}

}  // namespace spate::meta
