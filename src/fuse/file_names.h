// SPDX-License-Identifier: Apache-2.0
// FileNames: names of the objects that programs have looked up last, so that the log can name files.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "model/ids.h"

namespace spate::fuse {

/// The kernel names an open file by its number only. This class remembers by which name each object was reached last. A
/// name may be out of date, since other clients rename. Thread-safe; asks nobody.
class FileNames {
 public:
  /// Keeps names of at least `most` objects.
  explicit FileNames(std::size_t most = 16384) : most_(most) {}

  void note(Handle object, Handle directory, std::string_view name);
  /// The path below the mounted directory. "inode N" stands for a part that is not known. Empty: not even the name is
  /// known.
  std::string path_of(Handle object) const;

 private:
  struct Name {
    Handle directory;
    std::string name;
  };
  using Names = std::unordered_map<Handle, Name>;
  const Name* find(Handle object) const;

  const std::size_t most_;
  mutable std::mutex mutex_;
  Names recent_;   // guarded by mutex_, as is the next
  Names earlier_;  // dropped when there are `most_` recent ones
};

}  // namespace spate::fuse
