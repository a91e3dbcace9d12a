// SPDX-License-Identifier: Apache-2.0
#include "trove/rocksdb/status.h"

namespace spate::trove {

Errc errc_of(const rocksdb::Status& status) {
  if (status.ok()) return Errc::kOk;
  if (status.IsNotFound()) return Errc::kNotFound;
  if (status.IsCorruption()) return Errc::kCorrupt;
  if (status.IsNoSpace()) return Errc::kNoSpace;
  if (status.IsMemoryLimit()) return Errc::kNoMemory;
  if (status.IsShutdownInProgress()) return Errc::kCancelled;
  return Errc::kIoError;
}

}  // namespace spate::trove
