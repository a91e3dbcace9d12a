// SPDX-License-Identifier: Apache-2.0
// RocksDB's Status as an Errc, and our bytes as its Slice.
#pragma once

#include <rocksdb/slice.h>
#include <rocksdb/status.h>

#include "base/bytes.h"
#include "base/error.h"

namespace spate::trove {

/// kOk for OK; kNotFound for NotFound; anything unknown becomes kIoError.
inline Errc errc_of(const rocksdb::Status& status) {
  if (status.ok()) return Errc::kOk;
  if (status.IsNotFound()) return Errc::kNotFound;
  if (status.IsCorruption()) return Errc::kCorrupt;
  if (status.IsNoSpace()) return Errc::kNoSpace;
  if (status.IsMemoryLimit()) return Errc::kNoMemory;
  if (status.IsShutdownInProgress()) return Errc::kCancelled;
  return Errc::kIoError;
}

inline rocksdb::Slice slice_of(ByteView bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
inline ByteView view_of(const rocksdb::Slice& slice) {
  return {reinterpret_cast<const std::byte*>(slice.data()), slice.size()};
}
inline Bytes bytes_of(const rocksdb::Slice& slice) { return to_bytes(view_of(slice)); }

}  // namespace spate::trove
