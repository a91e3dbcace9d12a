// SPDX-License-Identifier: Apache-2.0
// HeldChanges: data of new files that wait until the files are made, and changes that wait until the data are sent.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/unique_function.h"
#include "client/attributes/local_changes.h"
#include "client/change_log.h"
#include "client/session/gather_memory.h"
#include "client/session/handover_state.h"

namespace spate::client {

/// An open by QueuedChanges::make() through which nothing was done yet but writes that wait.
struct NewFile {
  Handle handle;
  std::uint8_t open_flags = 0;
  HandoverState::Open* record = nullptr;  // outlives the file here
};

/// The changes of a file are in the piece that has the file's data, so a next process has both. Thread-safe after
/// gather_in(), and never waits for the executor. QueuedFiles sends what is here.
class HeldChanges final : public ChangesAfterData {
 public:
  /// `log`: has the files' creations, and outlives this object.
  explicit HeldChanges(ChangeLog& log) : log_(log) {}
  HeldChanges(const HeldChanges&) = delete;
  HeldChanges& operator=(const HeldChanges&) = delete;

  /// Any thread calls these functions.
  struct Gathering {
    GatherMemory* memory = nullptr;  // null: nothing is kept
    std::function<bool()> may_begin;
    std::function<std::string(Handle)> name_of;
    std::function<void()> half_full;  // of the memory
  };
  /// Call it before the other functions. Objects to which it refers outlive this object.
  void gather_in(Gathering gathering) { gathering_ = std::move(gathering); }

  struct Write {
    NewFile file;
    std::uint64_t offset = 0;
    ByteView bytes;
    bool made = false;  // the creation is answered, and nobody has opened the file by that answer
  };
  /// Keeps a write to a file whose creation is in the log, if it continues what is kept.
  bool keep(const Write& write, WallTime now);
  /// An earlier process has left the piece. Nothing is added to it.
  void take_over(GatherMemory::Piece& piece);
  /// From now on nothing is added to the piece.
  void begin_sending(Handle file);
  struct Fresh {
    NewFile file;
    GatherMemory::Piece* piece = nullptr;
  };
  /// The files that keep() has begun with since the last call. They are here when their creation leaves the log.
  std::vector<Fresh> take_fresh();
  /// The state and the content of a closed file's datafiles. The bytes are there during the call.
  struct Sent {
    wire::DataSummary data;
    ByteView bytes;
  };
  /// Null: not all data were sent, or nobody knows the state of the datafiles.
  using Then = UniqueFunction<void(const Sent* sent)>;
  /// `then` is for take_closed(), if close() ends the file's open. False: the file is not here.
  bool when_closed(Handle file, Then then);
  Then take_closed(Handle file);
  /// Nothing more may wait.
  void refuse();

  // ChangesAfterData.
  bool has(Handle file) const override;
  std::optional<Held> find(Handle file) const override;
  bool set(Handle file, const Later& later) override;
  bool close(Handle file) override;
  void end(Handle file) override;

  bool any() const override { return files() > 0; }
  std::uint64_t files() const { return count_.load(std::memory_order_acquire); }
  /// How many changes have ever waited.
  std::uint64_t held() const { return held_.load(std::memory_order_relaxed); }

 private:
  struct File {
    GatherMemory::Piece* piece = nullptr;
    bool sending = false;
    Then when_closed;
  };
  bool begin(const Write& write, WallTime now);
  GatherMemory::Later* later_of(Handle file);

  ChangeLog& log_;
  Gathering gathering_;

  mutable std::mutex mutex_;  // guards the pieces' `later`, too
  bool refuses_ = false;
  bool told_ = false;  // that the memory is half full
  std::unordered_map<Handle, File> files_;
  std::vector<Fresh> fresh_;
  std::unordered_map<Handle, Then> closed_;

  std::atomic<std::uint64_t> count_ = 0;  // of files_
  std::atomic<std::uint64_t> held_ = 0;
};

}  // namespace spate::client
