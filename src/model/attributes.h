// SPDX-License-Identifier: Apache-2.0
// Attributes of an object of the name space, and the identity of a caller.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "model/ids.h"

namespace spate {

/// Values are stored and sent: only append.
enum class FileType : std::uint8_t {
  kRegular = 1,
  kDirectory = 2,
  kSymlink = 3,
  kFifo = 4,
  kSocket = 5,
  kCharDevice = 6,
  kBlockDevice = 7,
};

/// The attributes that stat returns. Times are file-system time.
struct Attributes {
  Handle handle;
  FileType type = FileType::kRegular;
  std::uint32_t mode = 0;  // permission bits, 0..07777
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint32_t project = 0;
  std::uint32_t link_count = 1;
  std::uint64_t device = 0;  // of a device node
  std::uint64_t size = 0;    // bytes; a directory: its entries; a symlink: its target's length
  std::uint64_t allocated_bytes = 0;
  WallTime atime;
  WallTime mtime;
  WallTime ctime;
  WallTime btime;
  /// Grows with every change of the object's metadata; of a directory also with every change of its entries.
  std::uint64_t version = 0;
  /// Regular files: false while a session has it open for writing; size, allocated_bytes and mtime must then be asked
  /// of the datafiles (docs/consistency.md, "Size and times").
  bool size_known = true;
  /// Sum (mod 2^64) of the datafiles' change counters when mtime was last determined. While the sum is unchanged, mtime
  /// is right.
  std::uint64_t change_sum = 0;
  friend bool operator==(const Attributes&, const Attributes&) = default;
};

constexpr std::size_t kMaxGroups = 64;

/// The user that a request acts for. Under `auth = key` the servers trust the client to name it; over local sockets
/// they trust the kernel.
struct Credential {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> groups;  // supplementary, at most kMaxGroups
  friend bool operator==(const Credential&, const Credential&) = default;
};

constexpr std::size_t kMaxNameBytes = 255;
constexpr std::size_t kMaxPathBytes = 4096;
constexpr std::size_t kMaxXattrNameBytes = 255;
constexpr std::size_t kMaxXattrValueBytes = 65536;
constexpr std::size_t kMaxSymlinkBytes = 4095;
constexpr std::uint32_t kMaxLinks = 1U << 31U;
constexpr unsigned kMaxSymlinkDepth = 40;

}  // namespace spate
