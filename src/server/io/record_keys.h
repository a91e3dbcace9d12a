// SPDX-License-Identifier: Apache-2.0
// The common parts of the keys and values of an io server's records (docs/disk-io.md).
#pragma once

#include <string_view>

#include "base/bytes.h"
#include "base/codec.h"
#include "base/result.h"
#include "model/ids.h"

namespace spate::io {

/// The second byte of a key. The first is the same in all keys of an io server.
enum class RecordKind : std::uint8_t {
  kChange = 'c',
  kTombstone = 'd',
  kTombstoneEnd = 'e',
  kFence = 'f',
  kGroupNote = 'g',
  kIdentity = 'i',
  kJoining = 'j',
  kLoss = 'l',
  kGroupDatafile = 'm',
  kNumberMarks = 'n',
  kRedone = 'r',
  kTruncate = 't',
};

/// The key with which all keys of a kind begin.
Bytes record_key(RecordKind kind);
/// The first key after all of the kind.
Bytes record_key_after_all(RecordKind kind);
bool has_kind(ByteView key, RecordKind kind);
inline constexpr std::size_t kRecordKindBytes = 2;

/// Keys hold numbers with the highest byte first, so that they sort as numbers do.
void append_number(Bytes& key, std::uint64_t value, int bytes);
std::uint64_t take_number(ByteView& key, std::size_t bytes);
void append_datafile(Bytes& key, DatafileId datafile);
DatafileId take_datafile(ByteView& key);
inline constexpr std::size_t kDatafileIdBytes = 8 + 4;

/// The version with which the value of each record begins.
inline constexpr std::uint8_t kRecordVersion = 1;
/// Takes the version from a value. A newer one is an error; any other one makes `in` fail.
Result<void> check_record_version(Decoder& in, std::string_view what);

}  // namespace spate::io
