// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/mirror_records.h"

#include <string>

#include "base/codec.h"

namespace spate::io {
namespace {

// The prefix of all records of the io server (records.cc), and the kinds of these.
constexpr std::uint8_t kIoPrefix = 'I';
constexpr std::uint8_t kGroupNote = 'g';
constexpr std::uint8_t kChange = 'c';
constexpr std::uint8_t kGroupDatafile = 'm';
constexpr std::uint8_t kMirrorVersion = 1;
constexpr std::size_t kGroupDatafileBytes = 2 + 4 + 8 + 4;
constexpr std::size_t kChangeKeyBytes = kGroupDatafileBytes + 1 + 8;

/// Keys hold numbers with the highest byte first, so that they sort as numbers do.
void append_number(Bytes& key, std::uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) key.push_back(static_cast<std::byte>(value >> (8 * i)));
}

std::uint64_t take_number(ByteView& key, std::size_t bytes) {
  std::uint64_t value = 0;
  for (const std::byte b : key.first(bytes)) value = value << 8U | static_cast<std::uint64_t>(b);
  key = key.subspan(bytes);
  return value;
}

Bytes begin_key(std::uint8_t kind) {
  Bytes key;
  key.reserve(kChangeKeyBytes);
  append_number(key, kIoPrefix, 1);
  append_number(key, kind, 1);
  return key;
}

Result<void> check_mirror_version(Decoder& in, const char* what) {
  const std::uint8_t version = in.u8();
  if (in.ok() && version > kMirrorVersion) {
    return Error(Errc::kFormatTooNew, std::string(what) + " is of version " + std::to_string(version) +
                                          ", this server knows " + std::to_string(kMirrorVersion) + ": upgrade it");
  }
  if (version != kMirrorVersion) in.fail();
  return {};
}

}  // namespace

Bytes group_note_key(TargetId group) {
  Bytes key = begin_key(kGroupNote);
  append_number(key, group.value, 4);
  return key;
}

Bytes group_note_first() { return begin_key(kGroupNote); }
Bytes group_note_after_all() { return begin_key(kGroupNote + 1); }

Bytes change_key(TargetId group, const ChangedRegion& region) {
  Bytes key = change_first(group);
  append_number(key, region.datafile.handle.value, 8);
  append_number(key, region.datafile.slot, 4);
  append_number(key, region.to_the_end ? 1 : 0, 1);
  append_number(key, region.region, 8);
  return key;
}

Bytes change_first(TargetId group) {
  Bytes key = begin_key(kChange);
  append_number(key, group.value, 4);
  return key;
}

Bytes change_after_all(TargetId group) {
  Bytes key = begin_key(kChange);
  append_number(key, std::uint64_t{group.value} + 1, 4);
  return key;
}

Result<ChangedRegion> decode_change_key(ByteView key) {
  if (key.size() != kChangeKeyBytes) return Error(Errc::kCorrupt, "key of a change");
  key = key.subspan(2 + 4);
  ChangedRegion region;
  region.datafile.handle = Handle(take_number(key, 8));
  region.datafile.slot = static_cast<std::uint32_t>(take_number(key, 4));
  const std::uint64_t kind = take_number(key, 1);
  region.to_the_end = kind == 1;
  region.region = take_number(key, 8);
  if (kind > 1) return Error(Errc::kCorrupt, "key of a change");
  return region;
}

Bytes group_datafile_key(TargetId group, DatafileId datafile) {
  Bytes key = group_datafile_first(group);
  append_number(key, datafile.handle.value, 8);
  append_number(key, datafile.slot, 4);
  return key;
}

Bytes group_datafile_first(TargetId group) {
  Bytes key = begin_key(kGroupDatafile);
  append_number(key, group.value, 4);
  return key;
}

Bytes group_datafile_after_all(TargetId group) {
  Bytes key = begin_key(kGroupDatafile);
  append_number(key, std::uint64_t{group.value} + 1, 4);
  return key;
}

Result<DatafileId> decode_group_datafile_key(ByteView key) {
  if (key.size() != kGroupDatafileBytes) return Error(Errc::kCorrupt, "key of a group's datafile");
  key = key.subspan(2 + 4);
  DatafileId datafile;
  datafile.handle = Handle(take_number(key, 8));
  datafile.slot = static_cast<std::uint32_t>(take_number(key, 4));
  return datafile;
}

Bytes encode(const GroupNote& note) {
  Bytes out;
  Encoder encoder(out);
  encoder.u8(kMirrorVersion);
  encode(encoder, note.record);
  encoder.flag(note.lacks_all);
  encoder.u64(note.boot);
  return out;
}

Result<GroupNote> decode_group_note(ByteView value) {
  Decoder in(value);
  SPATE_TRY(std::ignore, check_mirror_version(in, "the note of a data group"));
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
  encoder.u8(kMirrorVersion);
  encoder.u64(window);
  return out;
}

Result<std::uint64_t> decode_change(ByteView value) {
  Decoder in(value);
  SPATE_TRY(std::ignore, check_mirror_version(in, "the record of a change"));
  const std::uint64_t window = in.u64();
  SPATE_TRY(std::ignore, in.finish("record of a change"));
  return window;
}

}  // namespace spate::io
