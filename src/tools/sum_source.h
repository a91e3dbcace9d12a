// SPDX-License-Identifier: Apache-2.0
// SumSource: the files whose checksums `spate sum` makes, inside the file system or outside. Only this interface knows
// the difference.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/digest.h"
#include "tools/context.h"

namespace spate::tools {

struct SumItem {
  enum class Kind : std::uint8_t { kFile, kDirectory, kSymlink, kOther };
  std::string name;  // below the root; "" is the root itself
  Kind kind = Kind::kFile;
  std::string target;  // of a symlink
};

/// One executor: its tasks run inside ClientProcess::run().
class SumSource {
 public:
  virtual ~SumSource() = default;
  /// Yields the kind of `name` (a path below the root, "" for the root). Follows a link at the end.
  virtual job::Task<Result<SumItem>> look(std::string name) = 0;
  /// The entries of a directory, unsorted. A link is listed as a link.
  virtual job::Task<Result<std::vector<SumItem>>> list(std::string directory) = 0;
  /// The checksum and the size of a file's contents.
  virtual job::Task<Result<std::string>> digest(std::string name, DigestKind kind, std::uint64_t& bytes) = 0;
};

/// `root`: a local path.
std::unique_ptr<SumSource> local_sum_source(std::string root);
/// `root`: a path in the file system ("/a"). `client` outlives it.
std::unique_ptr<SumSource> remote_sum_source(client::Client& client, std::string root);

}  // namespace spate::tools
