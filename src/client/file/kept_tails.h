// SPDX-License-Identifier: Apache-2.0
// KeptTails: the last bytes of new files, which the kernel's page cache does not keep (docs/mount.md, "Reading back").
#pragma once

#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "base/bytes.h"
#include "model/attributes.h"

namespace spate::client {

/// Linux keeps a page that was written only if it was written as a whole. So it reads the last page of nearly each new
/// file from the mount, and of a small file everything. A copy of these bytes spares a request to open the file and one
/// to read it. The copy is right as long as the file has the size and the change sum that it had then.
///
/// The oldest copies go first. Thread-safe.
class KeptTails {
 public:
  static constexpr std::uint64_t kPage = 4096;

  /// `most_bytes`: limit of all copies together.
  explicit KeptTails(std::size_t most_bytes) : most_(most_bytes) {}
  KeptTails(const KeptTails&) = delete;
  KeptTails& operator=(const KeptTails&) = delete;

  /// `content`: all bytes of a file. `change_sum`: of its datafiles. Keeps what is behind the last whole page.
  void keep(Handle file, ByteView content, std::uint64_t change_sum);
  /// Reads from a copy, up to the end of the file. `now`: the attributes, under a lease. Nothing: there is no such
  /// copy, or it does not have the bytes at `offset`.
  std::optional<std::size_t> read(const Attributes& now, std::uint64_t offset, MutableByteView room);
  /// The memory of all copies, and its limit.
  std::size_t bytes() const;
  std::size_t most_bytes() const { return most_; }

 private:
  struct Tail {
    Handle file;
    std::uint64_t size = 0;  // of the file
    std::uint64_t change_sum = 0;
    Bytes bytes;
  };
  static constexpr std::size_t kOverhead = 128;  // guess: the memory of one entry without its bytes
  // Call it with the lock held.
  void remove(std::list<Tail>::iterator tail);

  const std::size_t most_;
  mutable std::mutex mutex_;  // guards all other members
  std::size_t used_ = 0;
  std::list<Tail> tails_;  // the oldest first
  std::unordered_map<Handle, std::list<Tail>::iterator> by_file_;
};

}  // namespace spate::client
