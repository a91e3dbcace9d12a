// SPDX-License-Identifier: Apache-2.0
// DataModel: which bytes each file may hold, byte by byte, whatever was written, cut, synced and lost.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "dist/registry.h"
#include "model/extent.h"
#include "model/ids.h"

namespace spate::cluster {

/// A write, punch or truncation of one file. 0: nobody has written there.
using WriteId = std::uint32_t;
/// A read or stat under way.
using ReadId = std::uint32_t;

/// For each byte, the writers whose value it may have now, and the writers whose value may be on the disk.
///
/// - A write that is under way, or failed, may or may not have reached each of its bytes.
/// - A write that succeeded has: what ended before it began can be seen there no longer.
/// - A sync that covered it takes such bytes from the disk as well.
/// - A crash of a server's machine leaves any of what may be on its disk; also of writes that are answered after it,
/// since
///   the server may have done its part before. A sync then finds the writes lost, but not truncations.
/// - A read sees, for each byte, something that was possible at some time between its begin and its end.
class DataModel {
 public:
  /// Called for a file when its layout is first known; again: no effect.
  void know(std::uint64_t handle, const Layout& layout);
  bool knows(std::uint64_t handle) const { return files_.contains(handle); }

  std::vector<std::uint64_t> handles() const;

  WriteId begin_write(std::uint64_t handle, std::span<const Extent> extents);
  WriteId begin_punch(std::uint64_t handle, std::span<const Extent> extents);
  WriteId begin_truncate(std::uint64_t handle, std::uint64_t size);
  void succeeded(WriteId id);
  std::uint64_t file_of(WriteId id) const { return writes_[id].handle; }
  const std::vector<Extent>& extents_of(WriteId id) const { return writes_[id].extents; }
  /// It was given up or failed, and nothing of it happens any more.
  void over(WriteId id);
  /// A truncation to an impossible size was asked for, and refused. The file is as it was, but what no write has filled
  /// up to its end may be zeros of its datafiles now. If a crash left the datafiles with another size than the meta
  /// server believes, they may have got that size.
  void refused_to_grow(std::uint64_t handle);

  ReadId begin_read(std::uint64_t handle, std::span<const Extent> extents);
  /// Empty when `data`, which came from those extents in their order, may have been there; else what is wrong. A read
  /// shorter than the extents has met the end of the file.
  std::string end_read(ReadId id, ByteView data);
  std::string end_stat(ReadId id, std::uint64_t size);
  void drop_read(ReadId id) { reads_.erase(id); }

  /// All of these had succeeded before a sync began that has now succeeded. Empty unless that cannot be.
  std::string synced(std::span<const WriteId> writes);
  /// The machine of this server has crashed.
  void crashed(ServerId server);

  /// What a write puts at an offset.
  static std::byte byte_of(WriteId id, std::uint64_t offset);
  static void fill(WriteId id, std::span<const Extent> extents, MutableByteView out);

  /// Bytes up to here exist for certain; beyond the second nothing can.
  std::pair<std::uint64_t, std::uint64_t> size_bounds(std::uint64_t handle) const;
  /// A crash may have taken what the meta server believes to be there.
  bool size_in_doubt(std::uint64_t handle) const { return files_.at(handle).size_in_doubt; }

 private:
  enum class Kind : std::uint8_t {
    kNever,
    kData,
    kZeros,     // punched: zeros; the size stays as it was
    kCut,       // beyond the end of a truncated file
    kExtended,  // zeros below the end of a truncated file, where nothing was before
  };
  struct Write {
    Kind kind = Kind::kNever;
    std::uint64_t handle = 0;
    std::vector<Extent> extents;
    WriteId companion = 0;  // kCut: the kExtended
    std::uint64_t begun = 0;
    std::uint64_t ended = 0;
    /// Servers whose machines have crashed since it began (a write: while it was under way): it may be lost there,
    /// although it is answered, or has been.
    std::set<ServerId> lost_on;
  };
  struct Cell {
    std::vector<WriteId> now{0};
    std::vector<WriteId> disk{0};
    friend bool operator==(const Cell&, const Cell&) = default;
  };
  /// Cells by their first byte; each reaches to the next.
  using Cells = std::map<std::uint64_t, Cell>;
  struct File {
    Layout layout;
    std::shared_ptr<const Distribution> distribution;
    Cells cells{{0, Cell{}}};
    bool size_in_doubt = false;
  };
  struct Read {
    std::uint64_t handle = 0;
    std::vector<Extent> extents;
    Cells cells;  // as they were, and what came since
    std::uint64_t begun = 0;
    bool crashed = false;
  };

  /// Which server holds the byte.
  static ServerId server_of(const File& file, std::uint64_t offset);
  /// Calls for the pieces of a range, each of which lies on one server.
  template <typename Do>
  static void for_pieces(const File& file, const Extent& extent, Do what);
  /// Beyond the last cell's first byte by a strip or two: where all is the same on all servers.
  static std::uint64_t end_of_cells(const File& file);
  /// As for_cells, but for what lies on servers that may have lost the write.
  template <typename Do>
  void for_kept_cells(File& file, const Write& write, Do what);
  WriteId begin(std::uint64_t handle, Kind kind, std::vector<Extent> extents);
  static void split(Cells& cells, std::uint64_t offset);
  template <typename Do>
  static void for_cells(Cells& cells, const Extent& extent, Do what);
  bool older(WriteId a, const Write& b) const { return writes_[a].ended < b.begun; }
  bool is_absent(WriteId id) const;
  void drop_idle(WriteId id, std::vector<WriteId>& candidates) const;
  void supersede(const Write& write, std::vector<WriteId>& candidates) const;
  std::pair<std::uint64_t, std::uint64_t> bounds(const Cells& cells) const;
  std::string check_run(Read& read, std::uint64_t offset, ByteView data);
  void narrow(const Read& read, std::uint64_t offset, ByteView data);
  std::string describe(const std::vector<WriteId>& candidates, std::uint64_t offset) const;
  static void merge_equal(Cells& cells);

  std::map<std::uint64_t, File> files_;
  std::vector<Write> writes_{Write{}};
  std::map<ReadId, Read> reads_;
  ReadId last_read_ = 0;
  std::uint64_t time_ = 0;  // counts begins and ends
};

}  // namespace spate::cluster
