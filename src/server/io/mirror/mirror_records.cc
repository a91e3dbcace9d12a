// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/mirror_records.h"

#include "base/codec.h"
#include "server/io/record_keys.h"

namespace spate::io {
namespace {

constexpr std::size_t kGroupDatafileBytes = kRecordKindBytes + 4 + kDatafileIdBytes;
constexpr std::size_t kChangeKeyBytes = kGroupDatafileBytes + 1 + 8;

Bytes key_of(RecordKind kind, std::uint64_t group) {
  Bytes key = record_key(kind);
  append_number(key, group, 4);
  return key;
}

}  // namespace

Bytes group_note_key(TargetId group) { return key_of(RecordKind::kGroupNote, group.value); }

Bytes group_note_first() { return record_key(RecordKind::kGroupNote); }
Bytes group_note_after_all() { return record_key_after_all(RecordKind::kGroupNote); }

Bytes change_key(TargetId group, const ChangedRegion& region) {
  Bytes key = change_first(group);
  append_datafile(key, region.datafile);
  append_number(key, region.to_the_end ? 1 : 0, 1);
  append_number(key, region.region, 8);
  return key;
}

Bytes change_first(TargetId group) { return key_of(RecordKind::kChange, group.value); }

Bytes change_after_all(TargetId group) { return key_of(RecordKind::kChange, std::uint64_t{group.value} + 1); }

Result<ChangedRegion> decode_change_key(ByteView key) {
  if (key.size() != kChangeKeyBytes) return Error(Errc::kCorrupt, "key of a change");
  key = key.subspan(kRecordKindBytes + 4);
  ChangedRegion region;
  region.datafile = take_datafile(key);
  const std::uint64_t kind = take_number(key, 1);
  region.to_the_end = kind == 1;
  region.region = take_number(key, 8);
  if (kind > 1) return Error(Errc::kCorrupt, "key of a change");
  return region;
}

Bytes group_datafile_key(TargetId group, DatafileId datafile) {
  Bytes key = group_datafile_first(group);
  append_datafile(key, datafile);
  return key;
}

Bytes group_datafile_first(TargetId group) { return key_of(RecordKind::kGroupDatafile, group.value); }

Bytes group_datafile_after_all(TargetId group) {
  return key_of(RecordKind::kGroupDatafile, std::uint64_t{group.value} + 1);
}

Result<DatafileId> decode_group_datafile_key(ByteView key) {
  if (key.size() != kGroupDatafileBytes) return Error(Errc::kCorrupt, "key of a group's datafile");
  key = key.subspan(kRecordKindBytes + 4);
  return take_datafile(key);
}

Bytes encode(const GroupNote& note) {
  Bytes out;
  Encoder encoder(out);
  encoder.u8(kRecordVersion);
  encode(encoder, note.record);
  encoder.flag(note.lacks_all);
  encoder.u64(note.boot);
  return out;
}

Result<GroupNote> decode_group_note(ByteView value) {
  Decoder in(value);
  SPATE_TRY(std::ignore, check_record_version(in, "the note of a data group"));
  GroupNote note;
  note.record = decode_data_group(in);
  note.lacks_all = in.flag();
  note.boot = in.u64();
  SPATE_TRY(std::ignore, in.finish("note of a data group"));
  return note;
}

Bytes encode_change(std::uint64_t window) {
  Bytes out;
  Encoder encoder(out);
  encoder.u8(kRecordVersion);
  encoder.u64(window);
  return out;
}

Result<std::uint64_t> decode_change(ByteView value) {
  Decoder in(value);
  SPATE_TRY(std::ignore, check_record_version(in, "the record of a change"));
  const std::uint64_t window = in.u64();
  SPATE_TRY(std::ignore, in.finish("record of a change"));
  return window;
}

}  // namespace spate::io
