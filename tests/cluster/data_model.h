// SPDX-License-Identifier: Apache-2.0
// DataModel: the values that each byte of a file may have after any writes, truncations, syncs and crashes.
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

/// The number of a write, punch or truncation of one file. 0: the byte was never written.
using WriteId = std::uint32_t;
/// The number of a read or stat in flight.
using ReadId = std::uint32_t;

/// Keeps for each byte the writes whose value it may have now, and the writes whose value may be on the disk.
///
/// - A write that is in flight, or has failed, may have reached each of its bytes or not.
/// - After a write has succeeded, values of writes that ended before its beginning are no longer possible now.
/// - A sync that covers the write removes those values from the disk, too.
/// - After a crash of a server's machine, a byte may have any value that may be on its disk. A write that is answered
///   after the crash may be lost, too, since the server may have made it before. A later sync reports lost writes, but
///   not lost truncations.
/// - A read sees, for each byte, something that was possible at some time between its begin and its end.
class DataModel {
 public:
  /// Call it when a file's layout is known. Repeated calls have no effect.
  void know(std::uint64_t handle, const Layout& layout);
  bool knows(std::uint64_t handle) const { return files_.contains(handle); }

  std::vector<std::uint64_t> handles() const;

  WriteId begin_write(std::uint64_t handle, std::span<const Extent> extents);
  WriteId begin_punch(std::uint64_t handle, std::span<const Extent> extents);
  WriteId begin_truncate(std::uint64_t handle, std::uint64_t size);
  void succeeded(WriteId id);
  std::uint64_t file_of(WriteId id) const { return writes_[id].handle; }
  const std::vector<Extent>& extents_of(WriteId id) const { return writes_[id].extents; }
  /// Call it when a write that failed or was given up can no longer take effect.
  void over(WriteId id);
  /// A truncation to an impossible size was refused. The file is unchanged, but bytes below its end that were never
  /// written may be zeros of the datafiles now. If a crash has left datafiles with another size than the meta server
  /// believes, they may have that size now.
  void refused_to_grow(std::uint64_t handle);

  ReadId begin_read(std::uint64_t handle, std::span<const Extent> extents);
  /// `data`: the bytes of the read's extents, in order. A read shorter than the extents has met the end of the file.
  /// Returns what is wrong; empty: the file may have held these bytes during the read.
  std::string end_read(ReadId id, ByteView data);
  std::string end_stat(ReadId id, std::uint64_t size);
  void drop_read(ReadId id) { reads_.erase(id); }

  /// Call it when a sync has succeeded; these writes had succeeded before it began. Returns what is wrong, or empty.
  std::string synced(std::span<const WriteId> writes);
  /// Call it when this server's machine has crashed.
  void crashed(ServerId server);

  /// The byte that a write puts at an offset of the file.
  static std::byte byte_of(WriteId id, std::uint64_t offset);
  static void fill(WriteId id, std::span<const Extent> extents, MutableByteView out);

  /// The least and the greatest size that the file may have.
  std::pair<std::uint64_t, std::uint64_t> size_bounds(std::uint64_t handle) const;
  /// Whether a crash may have lost bytes that the meta server believes to be there.
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
    WriteId companion = 0;  // of a kCut: the number of its kExtended
    std::uint64_t begun = 0;
    std::uint64_t ended = 0;
    /// Servers that have crashed since the beginning of a truncation, or during a write. It may be lost there, even if
    /// it was answered.
    std::set<ServerId> lost_on;
  };
  struct Cell {
    std::vector<WriteId> now{0};
    std::vector<WriteId> disk{0};
    friend bool operator==(const Cell&, const Cell&) = default;
  };
  /// By the offset of the cell's first byte. A cell reaches to the next one.
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
    Cells cells;  // the candidates at its beginning, and those added since
    std::uint64_t begun = 0;
    bool crashed = false;
  };

  /// The server that holds the byte.
  static ServerId server_of(const File& file, std::uint64_t offset);
  /// Splits a range into pieces that lie on one server each, and calls `what` for each piece.
  template <typename Do>
  static void for_pieces(const File& file, const Extent& extent, Do what);
  /// An offset one or two strips beyond the last cell's first byte. From there on, all bytes are alike on all servers.
  static std::uint64_t end_of_cells(const File& file);
  /// Like for_cells(), but only for cells on servers that cannot have lost the write.
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
  std::uint64_t time_ = 0;  // counts the beginnings and ends of operations
};

}  // namespace spate::cluster
