// SPDX-License-Identifier: Apache-2.0
#include "server/io/record_keys.h"

#include <string>

namespace spate::io {
namespace {

// Keeps the io server's records apart from those of a meta server in the same store.
constexpr std::uint8_t kIoPrefix = 'I';
constexpr std::size_t kLongestKey = kRecordKindBytes + 4 + kDatafileIdBytes + 1 + 8;

Bytes begin_key(std::uint8_t kind) {
  Bytes key;
  key.reserve(kLongestKey);
  append_number(key, kIoPrefix, 1);
  append_number(key, kind, 1);
  return key;
}

}  // namespace

Bytes record_key(RecordKind kind) { return begin_key(static_cast<std::uint8_t>(kind)); }

Bytes record_key_after_all(RecordKind kind) {
  return begin_key(static_cast<std::uint8_t>(static_cast<unsigned>(kind) + 1));
}

bool has_kind(ByteView key, RecordKind kind) {
  return key.size() >= kRecordKindBytes && key[0] == std::byte{kIoPrefix} && key[1] == static_cast<std::byte>(kind);
}

void append_number(Bytes& key, std::uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) key.push_back(static_cast<std::byte>(value >> (8 * i)));
}

std::uint64_t take_number(ByteView& key, std::size_t bytes) {
  std::uint64_t value = 0;
  for (const std::byte b : key.first(bytes)) value = value << 8U | static_cast<std::uint64_t>(b);
  key = key.subspan(bytes);
  return value;
}

void append_datafile(Bytes& key, DatafileId datafile) {
  append_number(key, datafile.handle.value, 8);
  append_number(key, datafile.slot, 4);
}

DatafileId take_datafile(ByteView& key) {
  DatafileId datafile;
  datafile.handle = Handle(take_number(key, 8));
  datafile.slot = static_cast<std::uint32_t>(take_number(key, 4));
  return datafile;
}

Result<void> check_record_version(Decoder& in, std::string_view what) {
  const std::uint8_t version = in.u8();
  if (in.ok() && version > kRecordVersion) {
    return Error(Errc::kFormatTooNew, std::string(what) + " is of version " + std::to_string(version) +
                                          ", this server knows " + std::to_string(kRecordVersion) + ": upgrade it");
  }
  if (version != kRecordVersion) in.fail();
  return {};
}

}  // namespace spate::io
