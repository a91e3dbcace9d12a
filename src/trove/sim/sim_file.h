// SPDX-License-Identifier: Apache-2.0
// SimFile: a simulated datafile that records which part of it has reached the disk.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <set>

#include "base/random.h"
#include "trove/bytestream.h"

namespace spate::trove {

/// Sparse content in pages, in two images: as programs see it, and as it is on the disk for certain. Not thread-safe.
class SimFile {
 public:
  static constexpr std::uint64_t kPage = 4096;
  static constexpr std::uint64_t kSector = 512;  // the device writes sectors whole; a page may be torn between them

  std::uint64_t size() const { return now_.size; }
  std::uint64_t allocated_bytes() const { return now_.pages.size() * kPage; }
  /// Pages that a change of [offset, offset + size) would add.
  std::uint64_t missing_pages(const Extent& extent) const;
  std::uint64_t dirty_bytes() const { return dirty_.size() * kPage; }
  BytestreamStat stat() const;

  /// Bytes read; less than out.size() at the end.
  std::size_t read(std::uint64_t offset, MutableByteView out) const;
  void write(std::uint64_t offset, ByteView data);
  void truncate(std::uint64_t size);
  void punch(const Extent& extent);
  void allocate(const Extent& extent);
  /// Makes the file at least `size` bytes long.
  void extend(std::uint64_t size);
  /// Adds at most `max` ranges of written pages from `from` on. Returns where the search ended.
  std::uint64_t data_ranges(std::uint64_t from, std::size_t max, std::vector<Extent>& out) const;
  /// Call it at each change of content, even one that fails.
  void changed(WallTime when);

  /// Makes everything that programs see durable, except what write-back has lost.
  void sync();
  /// Write-back meets errors: of the dirty pages with data, `random` chooses those that are written. The others stay as
  /// programs see them and are no longer dirty, as on Linux: no later sync writes them. Sizes and holes are metadata,
  /// which the next sync writes.
  void fail_write_back(Random& random);
  /// The machine goes down: each dirty page is lost, kept or torn, and the size the old or the new, as `random` says.
  void crash(Random& random);

 private:
  using Page = std::array<std::byte, kPage>;
  using PagePtr = std::shared_ptr<const Page>;
  struct Image {
    std::uint64_t size = 0;
    std::map<std::uint64_t, PagePtr> pages;
    std::uint64_t counter = 0;
    std::int64_t mtime_ns = 0;
  };

  Page& page_to_change(std::uint64_t index);
  void drop_page(std::uint64_t index);
  void zero_within_page(std::uint64_t offset, std::uint64_t size);
  bool settle_page(std::uint64_t index, Random& random);

  Image now_;
  Image disk_;
  std::set<std::uint64_t> dirty_;  // pages whose two images may differ, to be written by the next sync
  std::set<std::uint64_t> lost_;   // pages that write-back has lost, and nobody has changed since
  bool changed_since_sync_ = false;
};

}  // namespace spate::trove
