// SPDX-License-Identifier: Apache-2.0
#include "server/io/records.h"

#include <algorithm>

#include "base/codec.h"

namespace spate::io {
namespace {

// The first byte keeps the io server's records apart from those of a meta server in the same store.
constexpr std::uint8_t kPrefix = 'I';
constexpr std::uint8_t kTruncate = 't';
constexpr std::uint8_t kTombstone = 'd';
constexpr std::uint8_t kTombstoneEnd = 'e';
constexpr std::uint8_t kFence = 'f';
constexpr std::uint8_t kIdentity = 'i';
constexpr std::uint8_t kRedone = 'r';
constexpr std::uint8_t kLoss = 'l';
constexpr std::uint8_t kJoining = 'j';
constexpr std::uint8_t kVersion = 1;

constexpr std::size_t kDatafileBytes = 4 + 8 + 4;
constexpr std::size_t kTombstoneEndBytes = 2 + 8 + kDatafileBytes;
constexpr std::size_t kFenceBytes = 2 + 8;

/// Keys hold numbers with the highest byte first, so that they sort as numbers do.
void put(Bytes& key, std::uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) key.push_back(static_cast<std::byte>(value >> (8 * i)));
}

std::uint64_t take(ByteView& key, std::size_t bytes) {
  std::uint64_t value = 0;
  for (const std::byte b : key.first(bytes)) value = value << 8U | static_cast<std::uint64_t>(b);
  key = key.subspan(bytes);
  return value;
}

Bytes key_of(std::uint8_t kind) {
  Bytes key;
  key.reserve(kTombstoneEndBytes);
  put(key, kPrefix, 1);
  put(key, kind, 1);
  return key;
}

void put(Bytes& key, const DatafileKey& datafile) {
  put(key, datafile.target.value, 4);
  put(key, datafile.id.handle.value, 8);
  put(key, datafile.id.slot, 4);
}

std::uint64_t sortable(WallTime time) { return static_cast<std::uint64_t>(std::max<std::int64_t>(0, time.ns)); }

bool has_prefix(ByteView key, std::uint8_t kind) {
  return key.size() >= 2 && key[0] == std::byte{kPrefix} && key[1] == std::byte{kind};
}

Result<void> check_version(Decoder& in, std::string_view what) {
  const std::uint8_t version = in.u8();
  if (in.ok() && version > kVersion) {
    return Error(Errc::kFormatTooNew, std::string(what) + " is of version " + std::to_string(version) +
                                          ", this server knows " + std::to_string(kVersion) + ": upgrade it");
  }
  if (version != kVersion) in.fail();
  return {};
}

}  // namespace

Bytes identity_key() { return key_of(kIdentity); }
Bytes redone_key() { return key_of(kRedone); }
Bytes joining_key() { return key_of(kJoining); }

Bytes truncate_key(const DatafileKey& datafile) {
  Bytes key = key_of(kTruncate);
  put(key, datafile);
  return key;
}

Bytes tombstone_key(const DatafileKey& datafile) {
  Bytes key = key_of(kTombstone);
  put(key, datafile);
  return key;
}

Bytes loss_key(const DatafileKey& datafile) {
  Bytes key = key_of(kLoss);
  put(key, datafile);
  return key;
}

Bytes fence_key(ClientId client) {
  Bytes key = key_of(kFence);
  put(key, client.value, 8);
  return key;
}

Bytes tombstone_end_key(WallTime until, const DatafileKey& datafile) {
  Bytes key = key_of(kTombstoneEnd);
  put(key, sortable(until), 8);
  put(key, datafile);
  return key;
}

Bytes tombstone_end_after(WallTime until) {
  Bytes key = key_of(kTombstoneEnd);
  put(key, sortable(until) + 1, 8);
  return key;
}

Bytes tombstone_end_first() { return key_of(kTombstoneEnd); }
Bytes tombstone_end_after_all() { return key_of(kTombstoneEnd + 1); }
Bytes fence_after_all() { return key_of(kFence + 1); }
Bytes loss_first() { return key_of(kLoss); }
Bytes loss_after_all() { return key_of(kLoss + 1); }

Result<TombstoneEnd> decode_tombstone_end_key(ByteView key) {
  if (key.size() != kTombstoneEndBytes || !has_prefix(key, kTombstoneEnd))
    return Error(Errc::kCorrupt, "tombstone index");
  key = key.subspan(2);
  TombstoneEnd end;
  end.until.ns = static_cast<std::int64_t>(take(key, 8));
  if (end.until.ns < 0) return Error(Errc::kCorrupt, "tombstone index");
  end.datafile.target = TargetId(static_cast<std::uint32_t>(take(key, 4)));
  end.datafile.id.handle = Handle(take(key, 8));
  end.datafile.id.slot = static_cast<std::uint32_t>(take(key, 4));
  return end;
}

Result<ClientId> decode_fence_key(ByteView key) {
  if (key.size() != kFenceBytes || !has_prefix(key, kFence)) return Error(Errc::kCorrupt, "fence key");
  key = key.subspan(2);
  return ClientId(take(key, 8));
}

Bytes encode(const TruncateRecord& record) {
  Bytes value;
  Encoder out(value);
  out.u8(kVersion);
  out.u64(record.generation);
  out.u64(record.boot);
  return value;
}

Bytes encode(const TombstoneRecord& record) {
  Bytes value;
  Encoder out(value);
  out.u8(kVersion);
  out.i64(record.until.ns);
  return value;
}

Bytes encode(const FenceRecord& record) {
  Bytes value;
  Encoder out(value);
  out.u8(kVersion);
  out.u32(record.lowest_epoch);
  out.i64(record.made.ns);
  return value;
}

Bytes encode(const IdentityRecord& record) {
  Bytes value;
  Encoder out(value);
  out.u8(kVersion);
  out.u64(record.fs.value);
  out.u32(record.server.value);
  return value;
}

Bytes encode(const RedoneRecord& record) {
  Bytes value;
  Encoder out(value);
  out.u8(kVersion);
  out.u64(record.boot);
  return value;
}

Bytes encode(const LossRecord& record) {
  Bytes value;
  Encoder out(value);
  out.u8(kVersion);
  out.u64(record.counter);
  out.u64(record.boot);
  return value;
}

Bytes encode(const JoiningRecord& /*record*/) {
  Bytes value;
  Encoder out(value);
  out.u8(kVersion);
  return value;
}

Result<TruncateRecord> decode_truncate(ByteView value) {
  Decoder in(value);
  SPATE_TRY(std::ignore, check_version(in, "truncate record"));
  TruncateRecord record;
  record.generation = in.u64();
  record.boot = in.u64();
  SPATE_TRY(std::ignore, in.finish("truncate record"));
  return record;
}

Result<TombstoneRecord> decode_tombstone(ByteView value) {
  Decoder in(value);
  SPATE_TRY(std::ignore, check_version(in, "tombstone record"));
  TombstoneRecord record;
  record.until.ns = in.i64();
  SPATE_TRY(std::ignore, in.finish("tombstone record"));
  return record;
}

Result<FenceRecord> decode_fence(ByteView value) {
  Decoder in(value);
  SPATE_TRY(std::ignore, check_version(in, "fence record"));
  FenceRecord record;
  record.lowest_epoch = in.u32();
  record.made.ns = in.i64();
  SPATE_TRY(std::ignore, in.finish("fence record"));
  return record;
}

Result<IdentityRecord> decode_identity(ByteView value) {
  Decoder in(value);
  SPATE_TRY(std::ignore, check_version(in, "identity record"));
  IdentityRecord record;
  record.fs = FsId(in.u64());
  record.server = ServerId(in.u32());
  SPATE_TRY(std::ignore, in.finish("identity record"));
  return record;
}

Result<RedoneRecord> decode_redone(ByteView value) {
  Decoder in(value);
  SPATE_TRY(std::ignore, check_version(in, "record of removals done again"));
  RedoneRecord record;
  record.boot = in.u64();
  SPATE_TRY(std::ignore, in.finish("record of removals done again"));
  return record;
}

Result<LossRecord> decode_loss(ByteView value) {
  Decoder in(value);
  SPATE_TRY(std::ignore, check_version(in, "loss record"));
  LossRecord record;
  record.counter = in.u64();
  record.boot = in.u64();
  SPATE_TRY(std::ignore, in.finish("loss record"));
  return record;
}

Result<JoiningRecord> decode_joining(ByteView value) {
  Decoder in(value);
  SPATE_TRY(std::ignore, check_version(in, "record of a store without fences"));
  SPATE_TRY(std::ignore, in.finish("record of a store without fences"));
  return JoiningRecord();
}

}  // namespace spate::io
