// SPDX-License-Identifier: Apache-2.0
#include "server/io/records.h"

#include <algorithm>

#include "base/codec.h"
#include "server/io/record_keys.h"

namespace spate::io {
namespace {

constexpr std::size_t kTombstoneEndBytes = kRecordKindBytes + 8 + 4 + kDatafileIdBytes;
constexpr std::size_t kFenceBytes = kRecordKindBytes + 8;

void append(Bytes& key, const DatafileKey& datafile) {
  append_number(key, datafile.target.value, 4);
  append_datafile(key, datafile.id);
}

Bytes key_of(RecordKind kind, const DatafileKey& datafile) {
  Bytes key = record_key(kind);
  append(key, datafile);
  return key;
}

std::uint64_t sortable(WallTime time) { return static_cast<std::uint64_t>(std::max<std::int64_t>(0, time.ns)); }

}  // namespace

Bytes identity_key() { return record_key(RecordKind::kIdentity); }
Bytes redone_key() { return record_key(RecordKind::kRedone); }
Bytes joining_key() { return record_key(RecordKind::kJoining); }
Bytes number_marks_key() { return record_key(RecordKind::kNumberMarks); }

Bytes truncate_key(const DatafileKey& datafile) { return key_of(RecordKind::kTruncate, datafile); }

Bytes tombstone_key(const DatafileKey& datafile) { return key_of(RecordKind::kTombstone, datafile); }

Bytes loss_key(const DatafileKey& datafile) { return key_of(RecordKind::kLoss, datafile); }

Bytes fence_key(ClientId client) {
  Bytes key = record_key(RecordKind::kFence);
  append_number(key, client.value, 8);
  return key;
}

Bytes tombstone_end_key(WallTime until, const DatafileKey& datafile) {
  Bytes key = record_key(RecordKind::kTombstoneEnd);
  append_number(key, sortable(until), 8);
  append(key, datafile);
  return key;
}

Bytes tombstone_end_after(WallTime until) {
  Bytes key = record_key(RecordKind::kTombstoneEnd);
  append_number(key, sortable(until) + 1, 8);
  return key;
}

Bytes tombstone_end_first() { return record_key(RecordKind::kTombstoneEnd); }
Bytes tombstone_end_after_all() { return record_key_after_all(RecordKind::kTombstoneEnd); }
Bytes fence_after_all() { return record_key_after_all(RecordKind::kFence); }
Bytes loss_first() { return record_key(RecordKind::kLoss); }
Bytes loss_after_all() { return record_key_after_all(RecordKind::kLoss); }

Result<TombstoneEnd> decode_tombstone_end_key(ByteView key) {
  if (key.size() != kTombstoneEndBytes || !has_kind(key, RecordKind::kTombstoneEnd))
    return Error(Errc::kCorrupt, "tombstone index");
  key = key.subspan(kRecordKindBytes);
  TombstoneEnd end;
  end.until.ns = static_cast<std::int64_t>(take_number(key, 8));
  if (end.until.ns < 0) return Error(Errc::kCorrupt, "tombstone index");
  end.datafile.target = TargetId(static_cast<std::uint32_t>(take_number(key, 4)));
  end.datafile.id = take_datafile(key);
  return end;
}

Result<ClientId> decode_fence_key(ByteView key) {
  if (key.size() != kFenceBytes || !has_kind(key, RecordKind::kFence)) return Error(Errc::kCorrupt, "fence key");
  key = key.subspan(kRecordKindBytes);
  return ClientId(take_number(key, 8));
}

Bytes encode(const TruncateRecord& record) {
  Bytes value;
  Encoder out(value);
  out.u8(kRecordVersion);
  out.u64(record.generation);
  out.u64(record.boot);
  return value;
}

Bytes encode(const TombstoneRecord& record) {
  Bytes value;
  Encoder out(value);
  out.u8(kRecordVersion);
  out.i64(record.until.ns);
  return value;
}

Bytes encode(const FenceRecord& record) {
  Bytes value;
  Encoder out(value);
  out.u8(kRecordVersion);
  out.u32(record.lowest_epoch);
  out.i64(record.made.ns);
  return value;
}

Bytes encode(const IdentityRecord& record) {
  Bytes value;
  Encoder out(value);
  out.u8(kRecordVersion);
  out.u64(record.fs.value);
  out.u32(record.server.value);
  return value;
}

Bytes encode(const RedoneRecord& record) {
  Bytes value;
  Encoder out(value);
  out.u8(kRecordVersion);
  out.u64(record.boot);
  return value;
}

Bytes encode(const LossRecord& record) {
  Bytes value;
  Encoder out(value);
  out.u8(kRecordVersion);
  out.u64(record.counter);
  out.u64(record.boot);
  return value;
}

Bytes encode(const JoiningRecord& /*record*/) {
  Bytes value;
  Encoder out(value);
  out.u8(kRecordVersion);
  return value;
}

Bytes encode(const NumberMarksRecord& record) {
  Bytes value;
  Encoder out(value);
  out.u8(kRecordVersion);
  out.u64(record.files);
  out.u64(record.clients);
  return value;
}

Result<TruncateRecord> decode_truncate(ByteView value) {
  Decoder in(value);
  SPATE_TRY(std::ignore, check_record_version(in, "truncate record"));
  TruncateRecord record;
  record.generation = in.u64();
  record.boot = in.u64();
  SPATE_TRY(std::ignore, in.finish("truncate record"));
  return record;
}

Result<TombstoneRecord> decode_tombstone(ByteView value) {
  Decoder in(value);
  SPATE_TRY(std::ignore, check_record_version(in, "tombstone record"));
  TombstoneRecord record;
  record.until.ns = in.i64();
  SPATE_TRY(std::ignore, in.finish("tombstone record"));
  return record;
}

Result<FenceRecord> decode_fence(ByteView value) {
  Decoder in(value);
  SPATE_TRY(std::ignore, check_record_version(in, "fence record"));
  FenceRecord record;
  record.lowest_epoch = in.u32();
  record.made.ns = in.i64();
  SPATE_TRY(std::ignore, in.finish("fence record"));
  return record;
}

Result<IdentityRecord> decode_identity(ByteView value) {
  Decoder in(value);
  SPATE_TRY(std::ignore, check_record_version(in, "identity record"));
  IdentityRecord record;
  record.fs = FsId(in.u64());
  record.server = ServerId(in.u32());
  SPATE_TRY(std::ignore, in.finish("identity record"));
  return record;
}

Result<RedoneRecord> decode_redone(ByteView value) {
  Decoder in(value);
  SPATE_TRY(std::ignore, check_record_version(in, "record of removals done again"));
  RedoneRecord record;
  record.boot = in.u64();
  SPATE_TRY(std::ignore, in.finish("record of removals done again"));
  return record;
}

Result<LossRecord> decode_loss(ByteView value) {
  Decoder in(value);
  SPATE_TRY(std::ignore, check_record_version(in, "loss record"));
  LossRecord record;
  record.counter = in.u64();
  record.boot = in.u64();
  SPATE_TRY(std::ignore, in.finish("loss record"));
  return record;
}

Result<JoiningRecord> decode_joining(ByteView value) {
  Decoder in(value);
  SPATE_TRY(std::ignore, check_record_version(in, "record of a store without fences"));
  SPATE_TRY(std::ignore, in.finish("record of a store without fences"));
  return JoiningRecord();
}

Result<NumberMarksRecord> decode_number_marks(ByteView value) {
  Decoder in(value);
  SPATE_TRY(std::ignore, check_record_version(in, "record of numbers in use"));
  NumberMarksRecord record;
  record.files = in.u64();
  record.clients = in.u64();
  SPATE_TRY(std::ignore, in.finish("record of numbers in use"));
  return record;
}

}  // namespace spate::io
