// SPDX-License-Identifier: Apache-2.0
// QueuedFiles: files that are written before the meta server has made them (docs/mount.md, "Delegated directories").
#pragma once

#include <map>
#include <memory>

#include "client/file/file.h"
#include "client/gathered_writes.h"
#include "client/queued_changes.h"

namespace spate::client {

/// The data of a file whose creation is queued wait in one piece of the GatherMemory, and so do a later chmod,
/// utimensat and close. When the server has answered the creation, the io servers get the data; then the rest is queued
/// as one change. So nobody sees data without a file, and times that were set win over those of the data. The piece is
/// given back when that change is in the QueueMemory: a next process finds one of them, or both, and sends each once.
///
/// Life cycle: construct -> calls -> stop() awaited -> destroyed. One executor. Not movable.
class QueuedFiles final : public QueuedData {
 public:
  using Opened = Result<std::unique_ptr<File>>;

  /// `cluster` outlives this object.
  explicit QueuedFiles(Cluster& cluster);
  ~QueuedFiles() override;
  QueuedFiles(const QueuedFiles&) = delete;
  QueuedFiles& operator=(const QueuedFiles&) = delete;

  using New = NewFile;
  /// Keeps the bytes, if they continue what is kept. False: nothing is changed. Thread-safe, and never waits.
  bool keep(const New& file, std::uint64_t offset, ByteView bytes);
  /// The same by the executor, for more files. May wait for room. False: nothing is changed, and the caller must open()
  /// the file and write through it.
  job::Task<Result<bool>> write(const New& file, std::uint64_t offset, ByteView bytes);
  /// Opens a file that QueuedChanges::make() has made and opened with these rights. Waits for the server's answer, and
  /// sends everything of the file that waits for it. The caller closes the file.
  job::Task<Opened> open(Handle file, std::uint8_t open_flags);
  /// Sends everything that waits for the creation.
  job::Task<void> send(Handle file);
  /// Sends a piece that an earlier process has left, and what has waited for it. Its file was closed.
  job::Task<Result<void>> take_over(GatherMemory::Piece& piece);
  /// As take_over(), if the file is still open. `file` was opened again by the caller.
  job::Task<Result<void>> take_over(GatherMemory::Piece& piece, File& file);

  /// From now on GatheredWrites knows the files that keep() has begun with, and may send or lose them.
  void adopt();

  job::Task<Result<void>> send_all(Limits limits) override;
  void send_closed() override;
  job::Task<void> stop() override;

 private:
  class Waiting;
  using Ptr = std::shared_ptr<Waiting>;
  bool keep(const HeldChanges::Write& write);
  void begin_sending(const Ptr& file);
  job::Task<void> send_now(Ptr file);
  using Sent = std::optional<wire::DataSummary>;  // the state of the datafiles; nothing: it is not known
  job::Task<Result<Sent>> send_data(Waiting& file);
  job::Task<Result<Sent>> send_through(GatherMemory::Piece& piece, File& file);
  job::Task<Opened> open_made(Handle file, std::uint8_t open_flags, Limits limits);
  job::Task<Opened> take(Ptr file);
  job::Task<void> leave(Ptr file);
  void fail(Waiting& file, const Error& error);
  void tell_sent(const Waiting& file, const wire::DataSummary& data);
  void end_piece(Waiting& file);
  void remove(Handle handle);

  Cluster& cluster_;
  std::map<Handle, Ptr> files_;
  job::Event ended_;  // set when a piece was given back
  job::Gate gate_;
};

}  // namespace spate::client
