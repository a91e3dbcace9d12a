// SPDX-License-Identifier: Apache-2.0
// For the parts of File only: file.cc, file_append.cc, file_copy.cc.
#pragma once

#include "client/file/file.h"

namespace spate::client {

/// Whether a new capability may help.
inline bool must_renew(Errc code) { return code == Errc::kCapabilityExpired || code == Errc::kSessionFenced; }

/// How often an operation is tried with another capability, or in another epoch of the session.
inline constexpr int kMostRenewals = 4;

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
