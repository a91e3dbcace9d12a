// SPDX-License-Identifier: Apache-2.0
// The io server's records in the keyval store, byte for byte: docs/disk-io.md.
#pragma once

#include <optional>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "model/ids.h"

namespace spate::io {

/// Identifies a datafile of this server. The target is needed, since two targets may hold the same handle and slot.
struct DatafileKey {
  TargetId target;
  DatafileId id;
  friend auto operator<=>(const DatafileKey&, const DatafileKey&) = default;
};

/// The last truncate that was carried out. boot == 0: it is durable. Otherwise it was carried out in that boot of the
/// machine, and may be only in memory.
struct TruncateRecord {
  std::uint64_t generation = 0;
  std::uint64_t boot = 0;
  friend bool operator==(const TruncateRecord&, const TruncateRecord&) = default;
};
/// The datafile was removed, and no write may bring it back before `until`.
struct TombstoneRecord {
  WallTime until;
  friend bool operator==(const TombstoneRecord&, const TombstoneRecord&) = default;
};
/// Requests of this client's epochs below `lowest_epoch` are refused.
struct FenceRecord {
  std::uint32_t lowest_epoch = 0;
  WallTime made;
  friend bool operator==(const FenceRecord&, const FenceRecord&) = default;
};

/// The server to which this store belongs; written when the store is made.
struct IdentityRecord {
  FsId fs;
  ServerId server;
  friend bool operator==(const IdentityRecord&, const IdentityRecord&) = default;
};

/// In this boot of the machine, all datafiles with tombstones have been removed again.
struct RedoneRecord {
  std::uint64_t boot = 0;
  friend bool operator==(const RedoneRecord&, const RedoneRecord&) = default;
};

/// The store is new, and does not know yet which clients are fenced.
struct JoiningRecord {
  friend bool operator==(const JoiningRecord&, const JoiningRecord&) = default;
};

/// Unsynced writes of the datafile up to this change counter may be lost. Writes that were synced before are safe.
struct LossRecord {
  /// The counter is not known yet: any write may be lost.
  static constexpr std::uint64_t kUnsettled = ~std::uint64_t{0};
  std::uint64_t counter = kUnsettled;
  std::uint64_t boot = 0;  // the boot of the machine in which the loss happened
  friend bool operator==(const LossRecord&, const LossRecord&) = default;
};

/// Numbers of files and of clients up to these may have been given out.
struct NumberMarksRecord {
  std::uint64_t files = 0;
  std::uint64_t clients = 0;
  friend bool operator==(const NumberMarksRecord&, const NumberMarksRecord&) = default;
};

Bytes identity_key();
Bytes redone_key();
/// This key exists as long as the store does not know the fences from before it was made.
Bytes joining_key();
Bytes number_marks_key();
Bytes truncate_key(const DatafileKey& datafile);
Bytes tombstone_key(const DatafileKey& datafile);
Bytes loss_key(const DatafileKey& datafile);
Bytes fence_key(ClientId client);
/// Key of the index of tombstones, by their expiry; its value is empty. `until` before 1970 counts as 1970.
Bytes tombstone_end_key(WallTime until, const DatafileKey& datafile);
/// One past the last key of the index that expires at or before `until`, and the index's first key.
Bytes tombstone_end_after(WallTime until);
Bytes tombstone_end_first();
Bytes tombstone_end_after_all();
Bytes fence_after_all();
/// All keys of losses lie between these two.
Bytes loss_first();
Bytes loss_after_all();

struct TombstoneEnd {
  WallTime until;
  DatafileKey datafile;
};
Result<TombstoneEnd> decode_tombstone_end_key(ByteView key);
Result<ClientId> decode_fence_key(ByteView key);

Bytes encode(const TruncateRecord& record);
Bytes encode(const TombstoneRecord& record);
Bytes encode(const FenceRecord& record);
Bytes encode(const IdentityRecord& record);
Bytes encode(const RedoneRecord& record);
Bytes encode(const LossRecord& record);
Bytes encode(const JoiningRecord& record);
Bytes encode(const NumberMarksRecord& record);
/// kCorrupt, or kFormatTooNew for a version that this build does not know.
Result<TruncateRecord> decode_truncate(ByteView value);
Result<TombstoneRecord> decode_tombstone(ByteView value);
Result<FenceRecord> decode_fence(ByteView value);
Result<IdentityRecord> decode_identity(ByteView value);
Result<RedoneRecord> decode_redone(ByteView value);
Result<LossRecord> decode_loss(ByteView value);
Result<JoiningRecord> decode_joining(ByteView value);
Result<NumberMarksRecord> decode_number_marks(ByteView value);

}  // namespace spate::io

template <>
struct std::hash<spate::io::DatafileKey> {
  std::size_t operator()(const spate::io::DatafileKey& key) const noexcept {
    return std::hash<spate::DatafileId>()(key.id) * 31 + key.target.value;
  }
};
