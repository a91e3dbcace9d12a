// SPDX-License-Identifier: Apache-2.0
// Requests with which `spate fsck` examines and repairs the stores of servers (docs/wire.md, "Checking"). A server
// answers them only to callers that have proved the server key. docs/fsck.md explains each kind of damage.
#pragma once

#include "wire/io_messages.h"
#include "wire/session_messages.h"

namespace spate::wire {

/// X(enumerator, number, name). Numbers are part of the wire format, names of fsck's output: append only.
#define SPATE_DAMAGES(X)                                  \
  X(DanglingEntry, 1, "dangling-entry")                   \
  X(MissingDirectory, 2, "missing-directory")             \
  X(WrongEntryType, 3, "wrong-entry-type")                \
  X(MisfiledEntry, 4, "misfiled-entry")                   \
  X(WrongDirectoryCounts, 5, "wrong-directory-counts")    \
  X(UnreadableRecord, 6, "unreadable-record")             \
  X(WrongLinkCount, 20, "wrong-link-count")               \
  X(OrphanInode, 21, "orphan-inode")                      \
  X(UnfinishedUnlink, 22, "unfinished-unlink")            \
  X(WrongParent, 23, "wrong-parent")                      \
  X(SecondName, 24, "second-name")                        \
  X(DirectoryLoop, 25, "directory-loop")                  \
  X(WrongXattrCounts, 26, "wrong-xattr-counts")           \
  X(UnknownTarget, 27, "unknown-target")                  \
  X(HandleNotGiven, 28, "handle-not-given")               \
  X(UnknownParent, 29, "unknown-parent")                  \
  X(WrongOpenCount, 40, "wrong-open-count")               \
  X(SizeNotAsked, 41, "size-not-asked")                   \
  X(TruncateWithoutIntent, 42, "truncate-without-intent") \
  X(StrayOpen, 43, "stray-open")                          \
  X(StrayIntent, 44, "stray-intent")                      \
  X(StrayUnsettled, 45, "stray-unsettled")                \
  X(StrayXattr, 46, "stray-xattr")                        \
  X(StrayAnswer, 47, "stray-answer")                      \
  X(RemovalOfLiveFile, 48, "removal-of-live-file")        \
  X(StuckTruncate, 49, "stuck-truncate")                  \
  X(StuckSize, 50, "stuck-size")                          \
  X(StuckRemoval, 51, "stuck-removal")                    \
  X(OrphanDatafile, 60, "orphan-datafile")                \
  X(WrongSize, 61, "wrong-size")                          \
  X(MisplacedDatafile, 62, "misplaced-datafile")          \
  X(DatafileNotGiven, 63, "datafile-not-given")           \
  X(UnequalCopies, 64, "unequal-copies")                  \
  X(UnequalContents, 65, "unequal-contents")              \
  X(MissingCopy, 66, "missing-copy")

enum class Damage : std::uint16_t {
#define SPATE_DAMAGE_ENUM(id, number, text) k##id = number,
  SPATE_DAMAGES(SPATE_DAMAGE_ENUM)
#undef SPATE_DAMAGE_ENUM
};

/// "dangling-entry"; "unknown" for a number that this build does not know.
constexpr std::string_view damage_name(Damage damage) {
  switch (damage) {
#define SPATE_DAMAGE_NAME(id, number, text) \
  case Damage::k##id: return text;
    SPATE_DAMAGES(SPATE_DAMAGE_NAME)
#undef SPATE_DAMAGE_NAME
  }
  return "unknown";
}

/// A violation of docs/disk-meta.md, "What holds", with the fields that identify it. The kind decides which fields are
/// used; the others are 0 or empty.
struct Finding {
  Damage damage = Damage::kDanglingEntry;
  Handle handle;               // the object; of an entry, the object it leads to
  Handle directory;            // of an entry
  std::string name;            // of an entry
  std::uint64_t recorded = 0;  // what the record says ...
  std::uint64_t actual = 0;    // ... and what was found
  /// The inode's version when this was found. Counts from other records hold as long as the version is the same.
  std::uint64_t version = 0;
  ClientId client;          // of an open, of answers
  std::uint32_t epoch = 0;  // of an open
  SlotRef slot;             // of a datafile
  WallTime since;           // since when work has been overdue
  Bytes key;                // of a record that cannot be read, or is in the wrong place
  template <typename A>
  void fields(A& a) {
    a(damage, handle, directory, name, recorded, actual, version, client, epoch, slot, since, key);
  }
};

/// The kinds of records; each has a scan.
enum class ScanKind : std::uint8_t {
  kInodes = 1,
  kEntries = 2,
  kXattrs = 3,
  kOpens = 4,
  kRemovals = 5,
  kTruncates = 6,
  kUnsettled = 7,
  kAnswers = 8,
  kSessions = 9,
  kParents = 10,  // of entries, for objects whose parent is unknown: kUnknownParent, which is no damage
};

/// Reads one page of the records of a kind and checks them against related records, all in one state of the store. The
/// reply has the facts for checks that need more than one page (how many names an object has), which the caller makes.
struct MetaScanRequest {
  static constexpr Op kOp = Op::kMetaScan;
  static constexpr std::string_view kName = "meta scan request";
  ScanKind what = ScanKind::kInodes;
  Bytes after;            // where the last page ended (MetaScanReply::next); empty begins
  std::uint32_t max = 0;  // most records to look at, 1..kMaxScanPage; 0: kMaxScanPage
  /// Only objects in [low, high] have facts in the reply. Inodes below `low` are skipped.
  Handle low;
  Handle high{UINT64_MAX};
  bool findings = true;  // false: facts only
  bool names = false;    // entries: facts with names
  /// Background work counts as damage if it is older than this, ns.
  std::uint64_t grace_ns = 0;
  template <typename A>
  void fields(A& a) {
    a(what, after, max, low, high, findings, names, grace_ns);
  }
};
constexpr std::uint32_t kMaxScanPage = 1000;
/// Room for the reply to any page, bytes.
constexpr std::uint32_t kScanReplyRoom = 1U << 20U;

/// An inode of the page.
struct InodeFact {
  Handle handle;
  std::uint64_t version = 0;
  FileType type = FileType::kRegular;
  std::uint32_t link_count = 0;
  /// For a file whose size is known and not 0: the size, the slot with the last byte, and the length that its datafile
  /// must have.
  std::uint64_t size = 0;
  std::optional<SlotRef> last_slot;
  std::uint64_t last_bytes = 0;
  template <typename A>
  void fields(A& a) {
    a(handle, version, type, link_count, size, last_slot, last_bytes);
  }
};
/// An entry of the page.
struct EntryFact {
  Handle handle;
  Handle directory;
  std::string name;  // empty unless the request asks for names
  template <typename A>
  void fields(A& a) {
    a(handle, directory, name);
  }
};
/// Summary of one directory's entries in the page.
struct DirectoryFact {
  Handle directory;
  std::uint64_t version = 0;         // of its inode
  std::uint64_t size = 0;            // as its inode says
  std::uint32_t link_count = 0;      // as its inode says
  std::uint32_t entries = 0;         // in the page
  std::uint32_t subdirectories = 0;  // of these
  template <typename A>
  void fields(A& a) {
    a(directory, version, size, link_count, entries, subdirectories);
  }
};
struct MetaScanReply {
  static constexpr std::string_view kName = "meta scan reply";
  std::vector<Finding> findings;
  std::vector<InodeFact> inodes;           // of kInodes, ascending
  std::vector<EntryFact> entries;          // of kEntries, if requested
  std::vector<DirectoryFact> directories;  // of kEntries, ascending; the last one may continue in the next page
  std::uint32_t records = 0;               // looked at
  std::uint32_t unfinished = 0;            // of these, background work that is not overdue
  Bytes next;
  bool end = false;
  template <typename A>
  void fields(A& a) {
    a(findings, inodes, entries, directories, records, unfinished, next, end);
  }
};

/// Checks whether the damage is there now and, with `apply`, repairs it in the same transaction. Repeatable.
struct MetaRepairRequest {
  static constexpr Op kOp = Op::kMetaRepair;
  static constexpr std::string_view kName = "meta repair request";
  Finding finding;
  bool apply = false;
  template <typename A>
  void fields(A& a) {
    a(finding, apply);
  }
};
enum class RepairOutcome : std::uint8_t {
  kConfirmed = 1,  // the damage is there (without `apply`)
  kRepaired = 2,
  kGone = 3,     // it is not there, or no longer
  kChanged = 4,  // the object has changed since: check it again
  kLeft = 5,     // it is there and cannot be repaired, or not yet: the note says why
};
struct MetaRepairReply {
  static constexpr std::string_view kName = "meta repair reply";
  RepairOutcome outcome = RepairOutcome::kGone;
  std::string note;  // what was done, or what prevents the repair
  std::string path;  // of the object or entry, if it is known: "/a/b"
  template <typename A>
  void fields(A& a) {
    a(outcome, note, path);
  }
};

/// A datafile that was found on an io server. The request asks what the name space knows about it.
struct DatafileFact {
  Handle handle;
  SlotRef slot;
  std::uint64_t size = 0;  // of the datafile, bytes
  template <typename A>
  void fields(A& a) {
    a(handle, slot, size);
  }
};
struct MetaJudgeRequest {
  static constexpr Op kOp = Op::kMetaJudge;
  static constexpr std::string_view kName = "meta judge request";
  std::vector<DatafileFact> datafiles;  // at most kMaxJudged
  template <typename A>
  void fields(A& a) {
    a(datafiles);
  }
};
constexpr std::size_t kMaxJudged = 1024;
enum class Verdict : std::uint8_t {
  kGood = 1,
  kBeingRemoved = 2,
  kOrphan = 3,      // the file is gone for ever, since handles are never used twice
  kMisplaced = 4,   // the file's layout names no such slot on that target
  kNotGiven = 5,    // a handle that this meta server has never given out
  kTooLong = 6,     // bytes beyond the file's size, which is known
  kUnreadable = 7,  // its inode cannot be read
};
struct Judgement {
  Verdict verdict = Verdict::kGood;
  std::uint64_t version = 0;  // kTooLong: the inode's version, and the file's size that it records
  std::uint64_t size = 0;
  template <typename A>
  void fields(A& a) {
    a(verdict, version, size);
  }
};
struct MetaJudgeReply {
  static constexpr std::string_view kName = "meta judge reply";
  std::vector<Judgement> judgements;  // one for each of `datafiles`, in their order
  template <typename A>
  void fields(A& a) {
    a(judgements);
  }
};

/// Asks which of these datafiles exist, and how long they are.
struct DatafileProbeRequest {
  static constexpr Op kOp = Op::kDatafileProbe;
  static constexpr std::string_view kName = "datafile probe request";
  std::vector<DatafileRef> datafiles;  // at most kMaxProbed
  template <typename A>
  void fields(A& a) {
    a(datafiles);
  }
};
constexpr std::size_t kMaxProbed = 1024;
struct DatafilePresence {
  bool present = false;
  std::uint64_t size = 0;
  template <typename A>
  void fields(A& a) {
    a(present, size);
  }
};
struct DatafileProbeReply {
  static constexpr std::string_view kName = "datafile probe reply";
  std::vector<DatafilePresence> datafiles;  // one for each datafile of the request, in its order
  template <typename A>
  void fields(A& a) {
    a(datafiles);
  }
};

/// The bytes of a datafile that one digest is about.
constexpr std::uint64_t kDigestBytes = 1U << 20U;
constexpr std::uint64_t kMaxDigested = 16 * kDigestBytes;
/// Asks for digests of a part of one copy of a datafile: XXH64 of each kDigestBytes. Holes count as zeros.
struct DatafileDigestRequest {
  static constexpr Op kOp = Op::kDatafileDigest;
  static constexpr std::string_view kName = "datafile digest request";
  DatafileRef datafile;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;  // 1..kMaxDigested
  template <typename A>
  void fields(A& a) {
    a(datafile, offset, size);
  }
};
struct DatafileDigestReply {
  static constexpr std::string_view kName = "datafile digest reply";
  std::vector<std::uint64_t> digests;  // fewer where the datafile ends; the last one is about what is there
  template <typename A>
  void fields(A& a) {
    a(digests);
  }
};

/// Asks the server of a group's primary to have one member receive its copies of some datafiles anew. The member is
/// left out of the group and returns, as after an absence, and receives those that the primary has. If the member is
/// the primary, the source becomes the primary instead, and nothing is copied. The reply comes when the member is left
/// out. Fails with kNotPrimary if the server does not lead the group, with kTryAgain if the members do not serve or the
/// record has not been changed, and with kNotFound if the source is the primary and has lost all of them, too.
struct CopyRenewRequest {
  static constexpr Op kOp = Op::kCopyRenew;
  static constexpr std::string_view kName = "copy renew request";
  TargetId group;
  TargetId member;  // receives the copies
  TargetId source;  // has the right ones: the primary, or, if `member` is the primary, the member that becomes it
  std::vector<DatafileRef> datafiles;  // 1..kMaxProbed, all on `member`
  template <typename A>
  void fields(A& a) {
    a(group, member, source, datafiles);
  }
};
struct CopyRenewReply {
  static constexpr std::string_view kName = "copy renew reply";
  std::uint64_t epoch = 0;  // of the group's record in which `member` still served
  template <typename A>
  void fields(A& a) {
    a(epoch);
  }
};

}  // namespace spate::wire
