// SPDX-License-Identifier: Apache-2.0
// FileGather: the gathered writes of one open file (docs/mount.md, "Gathered writes").
#pragma once

#include <optional>

#include "client/file/file_data.h"
#include "client/gathered_writes.h"
#include "job/semaphore.h"

namespace spate::client {

/// Gathers writes that follow one another, as long as this client alone writes the file, through the open that has made
/// it. One executor. Life cycle: construct -> join() or take_over() -> calls -> leave() -> destroyed. Other calls of
/// send() may end after leave(), when the file's data is gone.
class FileGather final : public GatheringFile {
 public:
  /// `data` lives until leave().
  explicit FileGather(FileData& data);
  FileGather(const FileGather&) = delete;
  FileGather& operator=(const FileGather&) = delete;

  /// A larger write gains little, and goes to the servers at once.
  static constexpr std::size_t kMostBytes = std::size_t{256} << 10U;
  /// From this size on a write that goes past the servers, under a bypass lease, costs less than a gathered one
  /// (bench/results/2026-11-29-mount-streams.md).
  static constexpr std::size_t kLeaseBytes = std::size_t{64} << 10U;

  /// As File::write(), but may return before the servers have the data, if this client alone writes the file, through
  /// this open, and the write continues the last one. The servers get the data within about a second, before any other
  /// operation on the file by any client, and before File::sync() and close(). If they refuse it, the next write(),
  /// sync() and close() fail.
  job::Task<Result<void>> write(std::uint64_t offset, ByteView bytes);
  /// Gathers the bytes. It first sends what was gathered if there is no room behind it. False: the caller must write
  /// them itself, and nothing gathered is left.
  job::Task<Result<bool>> gather(std::uint64_t offset, ByteView bytes);
  /// Sends a piece that an earlier process has left, or that was gathered while the file's creation was queued. The
  /// latter stays with the caller.
  job::Task<void> take_over(GatherMemory::Piece& piece);
  /// A write through this open that was not gathered ended here.
  void wrote_until(std::uint64_t end) { next_ = end; }

  job::Task<void> send() override;
  bool unsent() const override { return piece_ != nullptr; }
  void lose(Error why) override;
  std::optional<MonoTime> since() const override;

  /// The failure of a request that carried gathered writes, until a sync has told it.
  const std::optional<Error>& failed() const { return failed_; }
  void told() { failed_.reset(); }
  /// Nothing is gathered any more. If anything is left, it is lost.
  void leave();

 private:
  bool take(std::uint64_t offset, ByteView bytes);
  bool may_gather(std::uint64_t offset, std::size_t size) const;
  bool fits(std::size_t size) const;
  bool rather_by_lease(std::uint64_t offset, std::size_t size) const;
  Result<void> tell_writer();
  job::Task<Result<void>> send_piece(GatherMemory::Piece& piece);
  void note_failure(Error error);

  FileData* data_;
  GatheredWrites& all_;
  const Handle handle_;
  GatherMemory::Piece* piece_ = nullptr;
  bool sending_ = false;
  MonoTime since_;
  std::uint64_t next_ = 0;  // where the last write through this open has ended
  std::optional<Error> failed_;
  bool writer_told_ = true;  // of `failed_`
  job::Semaphore turn_;      // held while a piece is sent
};

}  // namespace spate::client
