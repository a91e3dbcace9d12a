// SPDX-License-Identifier: Apache-2.0
// Internal to File: for file.cc, file_append.cc and file_copy.cc only.
#pragma once

#include "client/file/file.h"

namespace spate::client {

/// Whether a new capability may help.
inline bool must_renew(Errc code) { return code == Errc::kCapabilityExpired || code == Errc::kSessionFenced; }

/// The number of attempts of an operation with another capability, or in another epoch of the session.
inline constexpr int kMostRenewals = 4;

/// A transfer that may be larger than one request; the spans belong to the caller of read or write.
struct File::Operation {
  Kind kind;
  const datatype::Description& what;
  std::span<const MutableByteView> read_memory;
  std::span<const ByteView> write_memory;
  job::StopToken stop;
  /// For an append. It ends with kSessionFenced and does not go on in another epoch, because its right may belong to
  /// others then.
  std::uint32_t only_epoch = 0;
};

}  // namespace spate::client
