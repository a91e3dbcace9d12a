// SPDX-License-Identifier: Apache-2.0
// ChangeLog: the changes that this client has answered itself, until the server has answered them.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "client/attributes/local_changes.h"
#include "client/session/queue_memory.h"

namespace spate::client {

class Session;

/// Numbers the changes, and keeps them in the QueueMemory. It also keeps what an answer needs: handles for new objects,
/// and the server's clock. Sends nothing.
///
/// Life cycle: construct -> wake_by() -> calls -> destroyed. Thread-safe after wake_by(), and never waits for the
/// executor.
class ChangeLog final : public LocalChanges {
 public:
  /// `memory` null: nothing is added. Both outlive this object.
  ChangeLog(Session& session, QueueMemory* memory);
  ChangeLog(const ChangeLog&) = delete;
  ChangeLog& operator=(const ChangeLog&) = delete;

  /// So many changes are a batch.
  static constexpr std::uint64_t kFull = 128;

  /// Any thread calls `wake` when the sender, which sleeps, must look: when the first change comes, when there are
  /// kFull, and when handles are needed.
  void wake_by(std::function<void()> wake) { wake_ = std::move(wake); }
  bool on() const { return memory_ != nullptr; }

  // LocalChanges.
  WallTime time(WallTime least) override;
  Handle take_handle() override;
  bool add(Change change) override;
  bool takes_removals() const override { return takes_removals_.load(std::memory_order_relaxed); }
  bool changed_after(Handle object, std::uint64_t number) const override;
  const Credential& credential() const override;

  bool any() const { return size() > 0; }
  std::uint64_t size() const { return size_.load(std::memory_order_acquire); }
  /// Whether a change of the object, or an open, is here.
  bool has(Handle object) const;
  /// Whether a change of the object is.
  bool changes(Handle object) const;
  /// Whether its creation is.
  bool makes(Handle object) const;
  std::uint64_t last() const;
  /// A call that an earlier process has answered itself, if its answer may not have reached the program.
  std::optional<QueueMemory::Call> inherited_call(std::uint64_t request_id) const;
  void call_answered(std::uint64_t request_id);
  /// Whether an earlier process has queued the close of the open through which it has written the file.
  bool closed_before(Handle file) const { return closed_before_.contains(file); }
  /// From now on nothing is added but what was answered before.
  void end();

  // The session.
  QueueMemory::Owner owner() const;
  /// Another session, or another epoch. Forgets everything, and begins behind number `last`.
  void begin(QueueMemory::Owner owner, std::uint64_t last = 0);
  /// The offset of the server's clock to the executor's.
  void set_clock_offset(std::int64_t ns);
  /// Whether the server makes queued removals.
  void take_removals(bool takes) { takes_removals_ = takes; }
  /// Whether handles were reserved in this epoch. The answer to that tells with which number its changes begin.
  bool knows_numbers() const;
  bool needs_handles() const;
  void add_handles(QueueMemory::Range range);

  // The sender.
  /// Since when changes wait that were in no batch. Nothing: unknown, so they are old.
  std::optional<MonoTime> oldest() const;
  struct Batch {
    std::vector<QueueMemory::Record> records;
    QueueMemory::Owner owner;
  };
  /// The next changes behind number `done`. The others wait from now on.
  Batch batch(std::uint64_t done);
  void drop(const std::vector<QueueMemory::Record>& answered);
  /// True: nothing is left, and the next change wakes the sender.
  bool sleeps();
  /// Gives up all changes, and returns them.
  std::vector<QueueMemory::Record> take_all();
  void note_loss();

  struct Counters {
    std::uint64_t added = 0;
    std::uint64_t lost = 0;  // in all processes of the mount
  };
  Counters counters() const;

 private:
  void note(const QueueMemory::Record& record, std::uint64_t number);
  bool numbered() const { return memory_->last() > 0 || memory_->handles_left() > 0; }

  Session& session_;
  QueueMemory* const memory_;
  std::function<void()> wake_;
  std::set<Handle> closed_before_;

  mutable std::mutex mutex_;  // guards memory_ and the members up to the next line break
  WallTime last_time_;
  std::int64_t clock_offset_ns_ = 0;
  bool ended_ = false;
  bool called_ = false;  // the sender knows that there is something
  std::optional<MonoTime> oldest_;
  std::unordered_map<Handle, std::uint64_t> last_changes_;  // the number of the last change of an object
  std::unordered_map<Handle, std::uint64_t> last_opens_;    // and of the last record that changes nothing
  std::unordered_set<Handle> made_;                         // objects whose creation is here
  std::uint64_t added_ = 0;

  std::atomic<std::uint64_t> size_ = 0;
  std::atomic<bool> takes_removals_ = false;
};

}  // namespace spate::client
