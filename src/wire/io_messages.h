// SPDX-License-Identifier: Apache-2.0
// Requests to an io server (docs/wire.md, "Data"). "Bulk data" there explains how the data of read and write is sent.
#pragma once

#include "datatype/description.h"
#include "wire/data_path.h"
#include "wire/session_messages.h"

namespace spate::wire {

/// A slot of a file and the target (of the asked server) that holds its datafile.
struct SlotRef {
  std::uint32_t slot = 0;
  TargetId target;
  template <typename A>
  void fields(A& a) {
    a(slot, target);
  }
};

/// The part of a layout that a server needs to compute its share of a description, and the requested slots.
struct SlotSet {
  Handle handle;
  DistributionSpec distribution;
  std::uint64_t strip_bytes = 0;
  std::uint32_t slot_count = 0;  // of the whole file
  std::vector<SlotRef> slots;    // ascending; at most kMaxSlots
  template <typename A>
  void fields(A& a) {
    a(handle, distribution, strip_bytes, slot_count, slots);
  }
};

/// One datafile after an operation.
struct DatafileState {
  std::uint64_t size = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t change_counter = 0;
  WallTime mtime;
  template <typename A>
  void fields(A& a) {
    a(size, allocated_bytes, change_counter, mtime);
  }
};

/// Whether state `a` of a datafile is not older than `b`. If the counters are equal, a write may have been in flight
/// when one of the states was taken. The state with the larger size has seen more of that write.
inline bool not_older(const DatafileState& a, const DatafileState& b) {
  return a.change_counter > b.change_counter || (a.change_counter == b.change_counter && a.size >= b.size);
}

/// Each slot's share is one stream in logical order. If the streams of all slots together have at most `inline_limit`
/// bytes, the reply contains them. Otherwise slot i's stream comes as bulk messages of `unit_bytes` (the last one
/// shorter) with tag reply_tag + 1 + i, for which the client has posted receives before it sent the request. Bytes
/// beyond a datafile's end are not sent.
struct ReadRequest {
  static constexpr Op kOp = Op::kRead;
  static constexpr std::string_view kName = "read request";
  SlotSet where;
  datatype::Description what;
  std::uint32_t inline_limit = 0;
  std::uint32_t unit_bytes = 0;
  DataPath path = DataPath::kAutomatic;
  bool want_checksum = false;  // reserved for end-to-end checksums; refused with kNotSupported today
  template <typename A>
  void fields(A& a) {
    a(where, what, inline_limit, unit_bytes, path, want_checksum);
  }
};
struct ReadReply {
  static constexpr std::string_view kName = "read reply";
  std::vector<DatafileState> datafiles;     // one for each of where.slots, in their order
  std::vector<std::uint64_t> stream_bytes;  // likewise: bytes of each stream that existed and were sent
  std::optional<std::uint32_t> checksum;    // reserved
  Bytes data;                               // the inline streams, one after the other
  template <typename A>
  void fields(A& a) {
    a(datafiles, stream_bytes, checksum, data);
  }
};

/// The streams as in ReadRequest. With has_inline_data they follow in the request. Otherwise slot i's stream is sent as
/// bulk messages of `unit_bytes` with tag reply_tag + 1 + i; the server receives them when it has buffers (pull).
struct WriteRequest {
  static constexpr Op kOp = Op::kWrite;
  static constexpr std::string_view kName = "write request";
  SlotSet where;
  datatype::Description what;
  std::uint32_t unit_bytes = 0;
  DataPath path = DataPath::kAutomatic;
  WallTime fs_time;                       // the new mtime
  bool sync = false;                      // durable before the reply (O_SYNC)
  std::optional<std::uint32_t> checksum;  // reserved; refused with kNotSupported today
  bool has_inline_data = false;
  Bytes data;
  template <typename A>
  void fields(A& a) {
    a(where, what, unit_bytes, path, fs_time, sync, checksum, has_inline_data, data);
  }
};
struct WriteReply {
  static constexpr std::string_view kName = "write reply";
  std::vector<DatafileState> datafiles;  // one for each of where.slots, in their order
  template <typename A>
  void fields(A& a) {
    a(datafiles);
  }
};

struct DatafileStatRequest {
  static constexpr Op kOp = Op::kDatafileStat;
  static constexpr std::string_view kName = "datafile stat request";
  Handle handle;
  std::vector<SlotRef> slots;
  template <typename A>
  void fields(A& a) {
    a(handle, slots);
  }
};
struct DatafileStatReply {
  static constexpr std::string_view kName = "datafile stat reply";
  std::vector<DatafileState> datafiles;  // one for each slot, in their order; all zero if never written
  template <typename A>
  void fields(A& a) {
    a(datafiles);
  }
};

/// Needs the server key. Repeating it with the same generation has no further effect.
struct DatafileTruncateRequest {
  static constexpr Op kOp = Op::kDatafileTruncate;
  static constexpr std::string_view kName = "datafile truncate request";
  Handle handle;
  std::vector<SlotRef> slots;
  std::vector<std::uint64_t> sizes;  // physical, one for each slot, in their order
  std::uint64_t truncate_generation = 0;
  WallTime fs_time;
  template <typename A>
  void fields(A& a) {
    a(handle, slots, sizes, truncate_generation, fs_time);
  }
};
using DatafileTruncateReply = DatafileStatReply;

/// The described bytes become zeros (the size stays), or with `allocate` space is reserved for them.
struct PunchRequest {
  static constexpr Op kOp = Op::kPunch;
  static constexpr std::string_view kName = "punch request";
  SlotSet where;
  datatype::Description what;
  bool allocate = false;
  WallTime fs_time;
  template <typename A>
  void fields(A& a) {
    a(where, what, allocate, fs_time);
  }
};
using PunchReply = WriteReply;

/// Reserves space as PunchRequest does with `allocate`. With `extend` the datafiles also reach at least to the end of
/// the range; the new part reads as zeros and has no data.
struct DatafileAllocateRequest {
  static constexpr Op kOp = Op::kDatafileAllocate;
  static constexpr std::string_view kName = "datafile allocate request";
  SlotSet where;
  datatype::Description what;
  bool extend = false;
  WallTime fs_time;  // the new mtime of extended datafiles
  template <typename A>
  void fields(A& a) {
    a(where, what, extend, fs_time);
  }
};
using DatafileAllocateReply = WriteReply;

struct DatafileSyncRequest {
  static constexpr Op kOp = Op::kDatafileSync;
  static constexpr std::string_view kName = "datafile sync request";
  Handle handle;
  std::vector<SlotRef> slots;
  template <typename A>
  void fields(A& a) {
    a(handle, slots);
  }
};
using DatafileSyncReply = DatafileStatReply;

/// As DatafileSyncRequest, but an error of write-back is no failure: every reply reports it, to every client.
struct DatafileFlushRequest {
  static constexpr Op kOp = Op::kDatafileFlush;
  static constexpr std::string_view kName = "datafile flush request";
  Handle handle;
  std::vector<SlotRef> slots;
  template <typename A>
  void fields(A& a) {
    a(handle, slots);
  }
};
struct DatafileFlushReply {
  static constexpr std::string_view kName = "datafile flush reply";
  std::vector<DatafileState> datafiles;  // one for each slot, in their order
  std::vector<std::uint64_t> lost;       // likewise: writes up to this change counter may be lost; 0: none
  template <typename A>
  void fields(A& a) {
    a(datafiles, lost);
  }
};

struct DatafileRef {
  Handle handle;
  SlotRef slot;
  template <typename A>
  void fields(A& a) {
    a(handle, slot);
  }
};

/// Needs the server key (servers, fsck). Leaves a tombstone until `tombstone_until`, so that a late write cannot bring
/// a datafile back. Repeatable.
struct DatafileRemoveRequest {
  static constexpr Op kOp = Op::kDatafileRemove;
  static constexpr std::string_view kName = "datafile remove request";
  std::vector<DatafileRef> datafiles;
  WallTime tombstone_until;
  template <typename A>
  void fields(A& a) {
    a(datafiles, tombstone_until);
  }
};
using DatafileRemoveReply = Empty;

/// Lists the datafiles of a target. Needs the server key (servers, fsck).
struct DatafileListRequest {
  static constexpr Op kOp = Op::kDatafileList;
  static constexpr std::string_view kName = "datafile list request";
  TargetId target;
  Handle after_handle;
  std::uint32_t after_slot = 0;
  std::uint32_t max = 0;
  template <typename A>
  void fields(A& a) {
    a(target, after_handle, after_slot, max);
  }
};
struct DatafileListReply {
  static constexpr std::string_view kName = "datafile list reply";
  std::vector<DatafileRef> datafiles;
  bool end = false;
  template <typename A>
  void fields(A& a) {
    a(datafiles, end);
  }
};

struct TargetSpace {
  TargetId target;
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t total_files = 0;
  std::uint64_t free_files = 0;
  std::uint64_t device = 0;  // equal for targets of any servers that share a device, so that df counts it once
  std::string store;         // "uring", "pool", ...
  template <typename A>
  void fields(A& a) {
    a(target, total_bytes, free_bytes, total_files, free_files, device, store);
  }
};
struct IoStatfsRequest {
  static constexpr Op kOp = Op::kIoStatfs;
  static constexpr std::string_view kName = "io statfs request";
  template <typename A>
  void fields(A&) {}
};
struct IoStatfsReply {
  static constexpr std::string_view kName = "io statfs reply";
  std::vector<TargetSpace> targets;
  template <typename A>
  void fields(A& a) {
    a(targets);
  }
};

/// Needs the server key. From now on the server refuses this client's requests of epochs below `lowest_epoch`. The
/// fence is durable before the reply, and running requests of older epochs have ended or were discarded by then.
struct FenceRequest {
  static constexpr Op kOp = Op::kFence;
  static constexpr std::string_view kName = "fence request";
  ClientId client;
  std::uint32_t lowest_epoch = 0;
  template <typename A>
  void fields(A& a) {
    a(client, lowest_epoch);
  }
};
using FenceReply = Empty;

/// Which numbers this server has met. Needs the server key. A meta server whose store was put back from a backup must
/// not give these numbers out again.
struct UsedNumbersRequest {
  static constexpr Op kOp = Op::kUsedNumbers;
  static constexpr std::string_view kName = "used numbers request";
  template <typename A>
  void fields(A&) {}
};
/// All numbers up to these may have been given out; 0: the server knows of none.
struct UsedNumbersReply {
  static constexpr std::string_view kName = "used numbers reply";
  std::uint64_t files = 0;    // number_of() a handle
  std::uint64_t clients = 0;  // of a ClientId
  TargetId groups;
  template <typename A>
  void fields(A& a) {
    a(files, clients, groups);
  }
};

}  // namespace spate::wire
