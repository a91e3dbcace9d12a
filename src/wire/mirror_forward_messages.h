// SPDX-License-Identifier: Apache-2.0
// The messages between the io servers of one data group. They need the server key (docs/wire.md, "Mirrors").
#pragma once

#include "model/data_group.h"
#include "wire/membership_messages.h"

namespace spate::wire {

/// Data of a forwarded write up to this many bytes come in the request, more of it in one bulk message.
constexpr std::uint64_t kMirrorInlineBytes = 64 * 1024;
/// The most data of one forwarded write, bytes: a buffer of bulk data.
constexpr std::uint64_t kMirrorMostBytes = (8U << 20U) + 256 * 1024;
constexpr std::size_t kMaxMirrorExtents = 65536;  // of one forwarded change
constexpr std::size_t kMaxBeaconGroups = 1024;    // of one beacon
constexpr std::size_t kMaxMirrorRegions = 4096;   // of one page of a change log

/// Numbers are part of the wire format; no record holds them.
enum class MirrorChange : std::uint8_t {
  kWrite = 1,
  kPunch = 2,
  kAllocate = 3,
  kTruncate = 4,
  kRemove = 5,
  kSync = 6,
  kSettle = 7,  // of a datafile that was copied: its size, truncate generation, change counter
};

/// How a member took a message of its primary.
enum class MirrorVerdict : std::uint8_t {
  kDone = 1,     // accepted; `status`: the result
  kOld = 2,      // the member accepts a later epoch, or has accused the primary: it no longer accepts this one
  kNotYet = 3,   // the member does not accept this epoch yet: send it again
  kStranger = 4  // the member knows no such group, or does not belong to it
};

struct MirrorRange {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  template <typename A>
  void fields(A& a) {
    a(offset, size);
  }
};

/// A change of one datafile, from the primary to another member. A change that is sent again has the same number, and
/// is carried out once.
struct MirrorForwardRequest {
  static constexpr Op kOp = Op::kMirrorForward;
  static constexpr std::string_view kName = "mirror forward request";
  TargetId group;
  std::uint64_t epoch = 0;
  std::uint64_t term = 0;        // the epoch in which the primary began
  std::uint64_t number = 0;      // from 1 on, of this term
  std::uint64_t done_below = 1;  // changes with lower numbers have ended on all serving members
  std::uint64_t window = 0;      // of the change log
  Handle handle;
  std::uint32_t slot = 0;
  MirrorChange change = MirrorChange::kWrite;
  std::vector<MirrorRange> extents;       // write, punch, allocate; at most kMaxMirrorExtents
  bool extend = false;                    // allocate
  std::uint64_t size = 0;                 // truncate, settle
  std::uint64_t truncate_generation = 0;  // truncate, settle; 0: none
  std::uint64_t counter = 0;              // settle: the primary's change counter
  WallTime time;                          // becomes mtime; remove: end of the tombstone
  std::uint64_t bulk_bytes = 0;  // write: if not 0, the data come in one bulk message of tag + 1, and `data` is empty
  Bytes data;
  template <typename A>
  void fields(A& a) {
    a(group, epoch, term, number, done_below, window, handle, slot, change, extents, extend, size, truncate_generation,
      counter, time, bulk_bytes, data);
  }
};
struct MirrorForwardReply {
  static constexpr std::string_view kName = "mirror forward reply";
  MirrorVerdict verdict = MirrorVerdict::kDone;
  Errc status = Errc::kOk;
  std::uint64_t epoch = 0;  // the epoch that the member accepts
  template <typename A>
  void fields(A& a) {
    a(verdict, status, epoch);
  }
};

/// One group in a beacon of its primary.
struct BeaconGroup {
  DataGroup record;
  std::uint64_t term = 0;  // 0: the primary's process is new and does not lead yet, it only asks
  std::uint64_t done_below = 1;
  template <typename A>
  void fields(A& a) {
    a(record, term, done_below);
  }
};
/// A member's answer about one group of a beacon.
struct BeaconAnswer {
  static constexpr std::uint8_t kAcknowledged = 1;  // accepts this primary, and gives it time
  static constexpr std::uint8_t kFresh = 2;       // its process is new since it began to serve or join: it must return
  static constexpr std::uint8_t kLacksAll = 4;    // has nothing of the group's data
  static constexpr std::uint8_t kKnowsLater = 8;  // knows a later record than the beacon's
  static constexpr std::uint8_t kLeaves = 16;     // its process is about to end in order: the group goes on without it
  std::uint8_t flags = 0;
  template <typename A>
  void fields(A& a) {
    a(flags);
  }
};
/// Says that the primary is there. Each server with members of its groups gets it every quarter of a second.
struct MirrorBeaconRequest {
  static constexpr Op kOp = Op::kMirrorBeacon;
  static constexpr std::string_view kName = "mirror beacon request";
  std::vector<BeaconGroup> groups;  // at most kMaxBeaconGroups
  template <typename A>
  void fields(A& a) {
    a(groups);
  }
};
struct MirrorBeaconReply {
  static constexpr std::string_view kName = "mirror beacon reply";
  std::vector<BeaconAnswer> groups;  // one for each group of the request, in its order
  template <typename A>
  void fields(A& a) {
    a(groups);
  }
};

/// A changed range of a datafile.
struct MirrorRegion {
  Handle handle;
  std::uint32_t slot = 0;
  std::uint64_t region = 0;  // the number of a MiB of the datafile
  bool to_the_end = false;   // and everything behind it
  template <typename A>
  void fields(A& a) {
    a(handle, slot, region, to_the_end);
  }
};

/// Tells a member the group's record. The reply comes when the member accepts it: nothing of an earlier epoch is under
/// way, and the member will know the epoch after a restart.
struct MirrorObeyRequest {
  static constexpr Op kOp = Op::kMirrorObey;
  static constexpr std::string_view kName = "mirror obey request";
  DataGroup record;
  std::uint64_t term = 0;
  template <typename A>
  void fields(A& a) {
    a(record, term);
  }
};
struct MirrorObeyReply {
  static constexpr std::string_view kName = "mirror obey reply";
  MirrorVerdict verdict = MirrorVerdict::kDone;
  std::uint8_t flags = 0;              // BeaconAnswer's
  std::vector<MirrorRegion> doubtful;  // changes of the previous term that may not have reached all members
  template <typename A>
  void fields(A& a) {
    a(verdict, flags, doubtful);
  }
};

/// Asks for a page of a returning member's change log.
struct MirrorRecordsRequest {
  static constexpr Op kOp = Op::kMirrorRecords;
  static constexpr std::string_view kName = "mirror records request";
  TargetId group;
  std::uint64_t epoch = 0;
  std::optional<MirrorRegion> after;
  template <typename A>
  void fields(A& a) {
    a(group, epoch, after);
  }
};
struct MirrorRecordsReply {
  static constexpr std::string_view kName = "mirror records reply";
  MirrorVerdict verdict = MirrorVerdict::kDone;
  std::vector<MirrorRegion> regions;  // at most kMaxMirrorRegions
  bool more = false;
  template <typename A>
  void fields(A& a) {
    a(verdict, regions, more);
  }
};

/// Syncs what the change log names up to window `up_to`, or forgets these windows, since all members have synced.
struct MirrorWindowRequest {
  static constexpr Op kOp = Op::kMirrorWindow;
  static constexpr std::string_view kName = "mirror window request";
  TargetId group;
  std::uint64_t epoch = 0;
  std::uint64_t up_to = 0;
  bool forget = false;
  template <typename A>
  void fields(A& a) {
    a(group, epoch, up_to, forget);
  }
};
using MirrorWindowReply = MirrorForwardReply;

/// Gives a returning member the fences that it may lack.
struct MirrorFencesRequest {
  static constexpr Op kOp = Op::kMirrorFences;
  static constexpr std::string_view kName = "mirror fences request";
  TargetId group;
  std::uint64_t epoch = 0;
  std::vector<ClientFence> fences;  // at most kMaxFences
  template <typename A>
  void fields(A& a) {
    a(group, epoch, fences);
  }
};
using MirrorFencesReply = MirrorForwardReply;

}  // namespace spate::wire
