// SPDX-License-Identifier: Apache-2.0
// The folder of one target: its identity file and skeleton. Format: docs/disk-datafiles.md, "The target's folder".
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "model/ids.h"

namespace spate::trove {

/// The format that this build writes, and the newest that it reads.
constexpr std::uint32_t kTargetFormatVersion = 1;
constexpr const char* kTargetFileName = "spate-target";

struct TargetIdentity {
  FsId fs;
  TargetId target;
  friend bool operator==(const TargetIdentity&, const TargetIdentity&) = default;
};

/// An open target. While it lives no other process can open the same folder. Movable value.
struct TargetFolder {
  std::string path;
  TargetIdentity identity;
  UniqueFd folder;     // the folder itself
  UniqueFd datafiles;  // its sub-folder `d`
  UniqueFd lock;       // the identity file, locked
};

/// Formats `path` (made when missing, mode 0700): the skeleton first, the identity file last, all synced. A failure
/// before the end leaves a folder that is no target and can be formatted again. kExists: it is a target already.
/// kNotSupported: the local file system does not keep times to the nanosecond (change counters are kept there).
Result<void> create_target(const std::string& path, const TargetIdentity& identity);

/// Opens `path` and checks that it is the target wanted. kNotFound: not formatted; kFormatTooNew: written by a newer
/// version; kWrongFileSystem: of another file system, or another target of it; kBusy: another process has it open;
/// kCorrupt: the identity file is damaged. The error's context names the folder and both values.
Result<TargetFolder> open_target(const std::string& path, const TargetIdentity& expected);

/// The identity alone, without opening: for tools. Errors as open_target.
Result<TargetIdentity> read_target_identity(const std::string& path);

/// encode_identity() makes the identity file's bytes. decode_identity() parses foreign bytes; `path` is for the error's
/// context.
Bytes encode_identity(const TargetIdentity& identity);
Result<TargetIdentity> decode_identity(ByteView in, const std::string& path);

}  // namespace spate::trove
