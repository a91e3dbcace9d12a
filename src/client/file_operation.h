// SPDX-License-Identifier: Apache-2.0
// For file.cc and file_append.cc only.
#pragma once

#include "client/file.h"

namespace spate::client {

/// A transfer that may be larger than one request; the spans belong to the caller of read or write.
struct File::Operation {
  Kind kind;
  const datatype::Description& what;
  std::span<const MutableByteView> read_memory;
  std::span<const ByteView> write_memory;
  job::StopToken stop;
  /// Of an append: ends with kSessionFenced rather than go on in another epoch, when its right has passed to others.
  std::uint32_t only_epoch = 0;
};

}  // namespace spate::client
