// SPDX-License-Identifier: Apache-2.0
// HandoverState: what of a client outlives its process, in memory that the next process is given (docs/mount.md,
// "Restart and upgrade").
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "model/capability.h"
#include "model/ids.h"
#include "model/lock_ranges.h"
#include "wire/meta_messages.h"

namespace spate::client {

/// Records of one type in shared memory. Whoever ends between take() and publish() leaves nothing behind: only what is
/// published is found by the next process. No thread-safety of its own.
template <typename Record>
class HandoverRecords {
 public:
  /// `high`, shared too: no record from there on was ever published.
  HandoverRecords(Record* records, std::uint32_t capacity, std::uint64_t& high)
      : records_(records), capacity_(capacity), high_(high) {
    if (high_ > capacity_) high_ = capacity_;
    for (std::uint64_t i = high_; i > 0; --i) {
      if (records_[i - 1].in_use == 0) free_.push_back(static_cast<std::uint32_t>(i - 1));
    }
  }

  /// A record to be filled in and published; null when there are too many.
  Record* take() {
    if (!free_.empty()) {
      Record& record = records_[free_.back()];
      free_.pop_back();
      record = Record{};
      return &record;
    }
    if (high_ == capacity_) return nullptr;
    Record& record = records_[high_];
    record = Record{};
    ++high_;
    return &record;
  }
  void publish(Record& record) { std::atomic_ref(record.in_use).store(1, std::memory_order_release); }
  void remove(Record& record) {
    std::atomic_ref(record.in_use).store(0, std::memory_order_release);
    free_.push_back(static_cast<std::uint32_t>(&record - records_));
  }
  template <typename Visit>
  void for_each(Visit visit) {
    for (std::uint64_t i = 0; i < high_; ++i) {
      if (records_[i].in_use != 0) visit(records_[i]);
    }
  }

 private:
  Record* records_;
  const std::uint64_t capacity_;
  std::uint64_t& high_;
  std::vector<std::uint32_t> free_;
};

/// State of a client in shared memory that outlives its process: the session with its tickets, the ids of requests in
/// flight, locks, and open files. One process uses it at a time. A killed process may leave it between any two machine
/// instructions; each part documents the order of its writes, which makes that safe. A *request_id* is the number of
/// the program's call that a request belongs to: the kernel repeats the call to a new process under the same number.
/// One executor uses it, except where a function says otherwise.
class HandoverState {
 public:
  /// Version of the layout in memory. A process with another version cannot take over.
  static constexpr std::uint32_t kVersion = 5;
  static constexpr std::size_t kFrontendBytes = 4096;

  struct SessionRecord {
    ClientId client;
    std::uint32_t epoch = 0;
    std::uint32_t lease_ms = 0;
    std::uint16_t answer_slots = 0;
    SessionTicket ticket;
    std::int64_t fs_clock_offset_ns = 0;
  };
  /// The last request of a request slot. The kernel repeats the program's call until that call is answered, which is
  /// later than the answer of the server.
  struct RequestSlot {
    std::uint64_t sequence = 0;
    std::uint64_t request_id = 0;
    std::uint64_t digest = 0;    // of the request
    std::uint64_t answered = 0;  // the call that was answered last of those with a request in this slot
    bool ended = false;          // the server has answered the request, or nobody waits for its answer
    bool may_come_again() const { return request_id != 0 && !(ended && answered == request_id); }
  };
  struct Held {
    std::uint64_t in_use = 0;
    std::uint64_t stamp = 0;  // later ones count where they overlap
    Handle handle;
    std::uint64_t owner = 0;
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    std::uint32_t pid = 0;
    LockKind kind = LockKind::kProcess;
    LockMode mode = LockMode::kNone;
  };
  /// A lock that somebody waits for.
  struct Wait {
    std::uint64_t in_use = 0;
    std::uint64_t sequence = 0;
    Held lock;
  };
  /// An append that is not answered yet, and where it goes.
  struct Append {
    std::uint64_t in_use = 0;
    std::uint64_t request_id = 0;
    Handle handle;
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    ClientId client;  // in whose session it has the right to append
    std::uint64_t epoch = 0;
  };
  /// An object whose attributes somebody else may use: the kernel. Written over when that time is past.
  struct Copied {
    Handle handle;
    MonoTime until;
  };
  /// A file that is cached above this client, and the state of its datafiles that the cache agrees with.
  struct Kept {
    std::uint64_t handle = 0;  // 0: nothing
    std::uint64_t size = 0;
    std::uint64_t change_sum = 0;
  };
  /// An open file of the front end above.
  struct Open {
    std::uint64_t in_use = 0;
    std::uint64_t number = 0;  // of the front end
    std::uint64_t request_id = 0;
    Handle handle;
    std::uint64_t unsynced = 0;  // note_written() of the first write since the last sync; 0: none
    std::uint8_t open_flags = 0;
    bool direct = false;
    bool reads_count = true;
    bool lost_write = false;
    bool released = false;  // the front end is not asked for it any more; only its close is not answered
    bool closing = false;   // its close has been sent, as the rest says
    std::uint64_t close_request_id = 0;
    std::optional<wire::DataSummary> close_data;
    std::optional<WallTime> close_atime;
  };
  /// Through which open file a lock was taken.
  struct LockUse {
    std::uint64_t in_use = 0;
    std::uint64_t open = 0;
    Handle handle;
    std::uint64_t owner = 0;
    LockKind kind = LockKind::kProcess;
  };

  /// Maps the memory behind `fd`, which is made when it is empty. kVersionMismatch: another version's; kCorrupt.
  static Result<std::unique_ptr<HandoverState>> open(int fd);
  ~HandoverState();
  HandoverState(const HandoverState&) = delete;
  HandoverState& operator=(const HandoverState&) = delete;

  /// 1 for the process that made it, one more for each after it.
  std::uint64_t generation() const;
  /// Counters of this generation begin here, so that their numbers differ from those of other generations.
  std::uint64_t first_number() const { return generation() << 40U; }
  bool inherited() const { return generation() > 1; }

  void keep_session(const SessionRecord& session);
  std::optional<SessionRecord> session() const;

  std::uint32_t slot_count() const;
  RequestSlot slot(std::uint32_t index) const;
  /// The slot's next request: written down before it is sent.
  void begin_request(std::uint32_t index, const RequestSlot& slot);
  void end_request(std::uint32_t index);
  /// The program's call has been answered: no later process is asked for it. Called for each call of the kernel, after
  /// the answer. Thread-safe.
  void call_answered(std::uint64_t request_id);

  /// Notes that an io server's process has accepted a write. Returns a number that changes when any server has
  /// restarted; never 0.
  std::uint64_t note_written(ServerId server, Incarnation incarnation);
  std::uint64_t write_number() const;
  /// The process that took this client's last write there.
  std::optional<Incarnation> last_writer(ServerId server) const;

  struct LockState {
    std::uint64_t table = 0;
    std::uint64_t acknowledged = 0;
    std::uint64_t last_sequence = 0;
  };
  LockState lock_state() const;
  void keep_lock_state(const LockState& state);
  /// What one owner holds of one file from now on; `like` has the owner.
  void keep_held(const Held& like, const std::vector<HeldLock>& pieces);
  /// In the order in which they were kept.
  std::vector<Held> held() const;
  void keep_wait(std::uint64_t sequence, const Held& lock);
  void end_wait(std::uint64_t sequence);
  std::vector<Wait> waits() const;

  /// Where this append goes: at the place that it had when an earlier process began it, else behind `end` and behind
  /// whatever may be written again. Noted before it is written.
  std::uint64_t place_append(Append append);
  /// Thread-safe, as the next two.
  void end_append(std::uint64_t request_id);
  /// A call of an earlier process is asked for again.
  void asked_again(std::uint64_t request_id);
  /// An earlier process's append to this file may be asked for again: nobody else may append until then. Thread-safe.
  bool may_append_again(Handle handle);
  /// Requests that the kernel has not repeated by now never come again.
  void forget_unasked();

  /// Somebody keeps a copy of the object's attributes that is used until then at the longest. False: too many do. One
  /// caller at a time.
  bool note_copy(Handle object, MonoTime until, MonoTime now);
  /// Those of which a copy may be used still.
  std::vector<Handle> copied(MonoTime now) const;

  // For the front end. Not thread-safe: the front end has a lock of its own.
  HandoverRecords<Open>& opens() { return *opens_; }
  HandoverRecords<LockUse>& lock_uses() { return *lock_uses_; }
  /// A power of two of them, all zero at first.
  std::span<Kept> kept() const;
  /// kFrontendBytes, all zero at first.
  std::byte* frontend_memory() const;

 private:
  struct Layout;
  using Owner = std::tuple<Handle, LockKind, std::uint64_t>;
  explicit HandoverState(Layout& layout);

  Layout& layout_;
  std::unique_ptr<HandoverRecords<Held>> held_;
  std::unique_ptr<HandoverRecords<Wait>> waits_;
  std::unique_ptr<HandoverRecords<Append>> appends_;
  std::unique_ptr<HandoverRecords<Open>> opens_;
  std::unique_ptr<HandoverRecords<LockUse>> lock_uses_;
  std::atomic<std::uint32_t> slots_used_ = 0;  // no slot from there on has a request
  std::uint64_t stamp_ = 0;
  std::map<Owner, std::vector<Held*>> pieces_;
  std::mutex append_mutex_;
  std::set<std::uint64_t> inherited_appends_;  // request ids; guarded by append_mutex_
  std::set<std::uint64_t> asked_again_;        // guarded by append_mutex_
};

}  // namespace spate::client
