// SPDX-License-Identifier: Apache-2.0
// GatherMemory: the bytes of gathered writes, in memory that the next process gets (docs/mount.md, "Gathered writes").
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "client/session/inherited_memory.h"
#include "model/ids.h"

namespace spate::client {

/// A fixed number of pieces, each with room for kPieceBytes of one file. A killed process may leave the memory between
/// any two machine instructions: a piece counts once it is published, and of its bytes those below `size` count. So
/// each write is there as a whole or not at all.
///
/// All memory is there from the start, so no write fails for want of it. Thread-safe.
class GatherMemory {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{1} << 20U;
  static constexpr std::size_t kMostPieces = 128;
  /// The end of a longer name is kept.
  static constexpr std::size_t kNameBytes = 255;

  /// The changes of a file that wait until its bytes are sent, if they begin while its creation is queued
  /// (client/queued_files.h). A value counts once its bit is set.
  struct Later {
    enum Bits : std::uint64_t { kMode = 1, kAtime = 2, kMtime = 4 };
    std::uint64_t queued = 0;      // 1: the piece is of such a file
    std::uint64_t open_flags = 0;  // wire::OpenFlags of its open
    std::uint64_t set = 0;
    std::uint64_t mode = 0;
    WallTime atime;
    WallTime mtime;
    WallTime at;               // of the last change
    std::uint64_t closed = 0;  // 1: its open has ended
  };
  struct Piece {
    std::uint64_t in_use = 0;
    Handle handle;
    ClientId client;          // the session and its epoch in which the bytes were written
    std::uint32_t epoch = 0;  // in no other one may they be sent
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    WallTime written;                         // of the last write
    std::array<char, kNameBytes + 1> name{};  // of the file, for people, when the piece began
    Later later;
    std::uint64_t end() const { return offset + size; }
  };

  /// Maps the memory behind `fd`. If it is empty, makes `pieces` pieces; else there are as many as before. Negative:
  /// memory of this process alone. kVersionMismatch: of another version.
  static Result<std::unique_ptr<GatherMemory>> open(int fd, std::size_t pieces);
  GatherMemory(const GatherMemory&) = delete;
  GatherMemory& operator=(const GatherMemory&) = delete;

  /// A piece with the attributes of `like` and without bytes. Null: all are in use.
  Piece* take(const Piece& like, std::string_view name = {});
  /// Adds bytes at the end of the piece; they fit. When it returns, a next process has them.
  void add(Piece& piece, ByteView bytes, WallTime now);
  ByteView bytes(const Piece& piece) const;
  void give_back(Piece& piece);
  /// Says for people what the piece holds: the file and the range.
  static std::string text(const Piece& piece);

  /// The gathered writes that were lost, in this process and all earlier ones.
  struct Losses {
    std::uint64_t requests = 0;
    std::uint64_t bytes = 0;
  };
  void note_loss(const Piece& piece);
  Losses losses() const;

  /// The pieces that an earlier process has left.
  const std::vector<Piece*>& inherited() const { return inherited_; }
  std::size_t pieces() const { return count_; }
  std::size_t used() const;

 private:
  struct Header;
  explicit GatherMemory(InheritedMemory memory);
  std::byte* data_of(const Piece& piece) const;

  const InheritedMemory memory_;
  Header& header_;
  Piece* const pieces_;
  const std::size_t count_;
  std::vector<Piece*> inherited_;
  mutable std::mutex mutex_;
  std::vector<Piece*> free_;  // guarded by mutex_
};

}  // namespace spate::client
