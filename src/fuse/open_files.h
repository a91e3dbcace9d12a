// SPDX-License-Identifier: Apache-2.0
// OpenFiles: the files that processes hold open through a mount.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "client/file.h"

namespace spate::fuse {

/// One open of one file; several descriptors may share it (dup, fork).
struct OpenFile {
  std::unique_ptr<client::File> file;
  std::uint8_t open_flags = 0;  // wire::OpenFlags it was opened with
  bool direct = false;          // the kernel keeps none of its pages
};

/// Thread-safe. A number is never used again, so that a wrong one finds nothing.
class OpenFiles {
 public:
  /// The number that the kernel sends with each request on this open.
  std::uint64_t add(OpenFile file);
  /// Null: no such number.
  std::shared_ptr<OpenFile> find(std::uint64_t number) const;
  /// Takes it out; null when there is none.
  std::shared_ptr<OpenFile> remove(std::uint64_t number);
  std::size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::uint64_t last_ = 0;
  std::unordered_map<std::uint64_t, std::shared_ptr<OpenFile>> files_;
};

}  // namespace spate::fuse
