// SPDX-License-Identifier: Apache-2.0
// HandoverState: the state of a client that outlives its process, in memory that the next process gets (docs/mount.md,
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

/// Records of one type in shared memory. If the process ends between take() and publish(), the next process does not
/// find the record, because it finds only published ones. Not thread-safe.
template <typename Record>
class HandoverRecords {
 public:
  /// `high`, which lies in shared memory, too: no record from this index on was ever published.
  HandoverRecords(Record* records, std::uint32_t capacity, std::uint64_t& high)
      : records_(records), capacity_(capacity), high_(high) {
    if (high_ > capacity_) high_ = capacity_;
    for (std::uint64_t i = high_; i > 0; --i) {
      if (records_[i - 1].in_use == 0) free_.push_back(static_cast<std::uint32_t>(i - 1));
    }
  }

  /// A record that the caller fills in and publishes. Null: there is no room for another.
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
/// One executor uses the state, except where a function says otherwise.
class HandoverState {
 public:
  /// Version of the layout in memory. A process with another version cannot take over the state.
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
  /// The last request of a request slot. The kernel repeats the program's call until the call is answered, which
  /// happens later than the server's answer.
  struct RequestSlot {
    std::uint64_t sequence = 0;
    std::uint64_t request_id = 0;
    std::uint64_t digest = 0;    // digest of the request
    std::uint64_t answered = 0;  // number of the call that was answered last, of those that had a request in this slot
    bool ended = false;          // the server has answered the request, or nobody waits for its answer
    bool may_come_again() const { return request_id != 0 && !(ended && answered == request_id); }
  };
  struct Held {
    std::uint64_t in_use = 0;
    std::uint64_t stamp = 0;  // where two overlap, the later one counts
    Handle handle;
    std::uint64_t owner = 0;
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    std::uint32_t pid = 0;
    LockKind kind = LockKind::kProcess;
    LockMode mode = LockMode::kNone;
  };
  /// A lock request that waits.
  struct Wait {
    std::uint64_t in_use = 0;
    std::uint64_t sequence = 0;
    Held lock;
  };
  /// An append that is not answered yet, and its place in the file.
  struct Append {
    std::uint64_t in_use = 0;
    std::uint64_t request_id = 0;
    Handle handle;
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    ClientId client;  // the client in whose session it has the right to append
    std::uint64_t epoch = 0;
  };
  /// An object whose attributes the kernel may have a copy of. The record may be replaced after the time `until`.
  struct Copied {
    Handle handle;
    MonoTime until;
  };
  /// A file whose pages are cached above this client, and the state of its datafiles with which the pages agree.
  struct PageRecord {
    std::uint64_t handle = 0;  // 0: the record is empty
    std::uint64_t size = 0;
    std::uint64_t change_sum = 0;
  };
  /// An open file of the front end.
  struct Open {
    std::uint64_t in_use = 0;
    std::uint64_t number = 0;  // the front end's number
    std::uint64_t request_id = 0;
    Handle handle;
    std::uint64_t unsynced = 0;  // result of note_written() for the first write since the last sync; 0: none
    std::uint8_t open_flags = 0;
    bool direct = false;
    bool reads_count = true;
    bool lost_write = false;
    bool released = false;  // the front end uses the file no more, but its close is not answered
    bool closing = false;   // its close has been sent; the next two members describe it
    std::uint64_t close_request_id = 0;
    std::optional<wire::DataSummary> close_data;
    std::optional<WallTime> close_atime;  // when it was read, as far as the front end or its close knows
  };
  /// An open directory of the front end.
  struct Directory {
    std::uint64_t in_use = 0;
    std::uint64_t number = 0;  // the front end's number
    std::uint64_t request_id = 0;
    Handle handle;
    Attributes attributes;  // when it was opened
  };
  /// The open file through which a lock was taken.
  struct LockUse {
    std::uint64_t in_use = 0;
    std::uint64_t open = 0;
    Handle handle;
    std::uint64_t owner = 0;
    LockKind kind = LockKind::kProcess;
  };

  /// Maps the memory behind `fd`, and initialises it if it is empty. kVersionMismatch: of another version. kCorrupt.
  static Result<std::unique_ptr<HandoverState>> open(int fd);
  ~HandoverState();
  HandoverState(const HandoverState&) = delete;
  HandoverState& operator=(const HandoverState&) = delete;

  /// 1 for the process that created the memory, and one more for each later process.
  std::uint64_t generation() const;
  /// Counters of this generation begin here. So their numbers differ from those of other generations.
  std::uint64_t first_number() const { return generation() << 40U; }
  bool inherited() const { return generation() > 1; }

  void keep_session(const SessionRecord& session);
  std::optional<SessionRecord> session() const;

  std::uint32_t slot_count() const;
  RequestSlot slot(std::uint32_t index) const;
  /// Records the slot's next request. Call it before the request is sent.
  void begin_request(std::uint32_t index, const RequestSlot& slot);
  void end_request(std::uint32_t index);
  /// The program's call has been answered, so the kernel gives it to no later process. Called after the answer of each
  /// call of the kernel. Thread-safe.
  void call_answered(std::uint64_t request_id);

  /// Records that an io server's process has accepted a write. Returns a number that changes when any server that had
  /// accepted a write has restarted; never 0.
  std::uint64_t note_written(ServerId server, Incarnation incarnation);
  std::uint64_t write_number() const;
  /// The process of the server that took this client's last write there. Nothing: it has taken none.
  std::optional<Incarnation> last_writer(ServerId server) const;

  struct LockState {
    std::uint64_t table = 0;
    std::uint64_t acknowledged = 0;
    std::uint64_t last_sequence = 0;
  };
  LockState lock_state() const;
  void keep_lock_state(const LockState& state);
  /// Records the locks of one owner on one file; `like` has the owner.
  void keep_held(const Held& like, const std::vector<HeldLock>& pieces);
  /// All records of locks, in the order in which they were made.
  std::vector<Held> held() const;
  void keep_wait(std::uint64_t sequence, const Held& lock);
  void end_wait(std::uint64_t sequence);
  std::vector<Wait> waits() const;

  /// The offset for this append: its old one if an earlier process began it, else `append.offset`, or the end of the
  /// appends that may be repeated if that is greater. Records it, so call this before the data is written.
  std::uint64_t place_append(Append append);
  /// Thread-safe, as are the next two.
  void end_append(std::uint64_t request_id);
  /// The kernel has repeated a call of an earlier process.
  void asked_again(std::uint64_t request_id);
  /// Whether an append of an earlier process to this file may be repeated. While that is so, nobody else may append.
  /// Thread-safe.
  bool may_append_again(Handle handle);
  /// Forgets the appends of earlier processes that the kernel has not repeated by now, because it never will.
  void forget_unasked();
  /// The same for appends to a file that is about to be truncated. What such an append has written may then be cut off,
  /// so a later append need not come behind it. (The kernel repeats calls before it makes new ones.) Thread-safe.
  void forget_unasked(Handle cut);

  /// Records that the kernel keeps a copy of the object's attributes, and uses it until `until` at the latest. False:
  /// there are too many copies. One caller at a time.
  bool note_copy(Handle object, MonoTime until, MonoTime now);
  /// The objects of which a copy may still be in use.
  std::vector<Handle> copied(MonoTime now) const;

  // For the front end. Not thread-safe: the front end locks.
  HandoverRecords<Open>& opens() { return *opens_; }
  HandoverRecords<LockUse>& lock_uses() { return *lock_uses_; }
  /// There are none if an earlier process did not keep them.
  HandoverRecords<Directory>& directories() { return *directories_; }
  /// Their number is a power of two; all are zero at first.
  std::span<PageRecord> kept() const;
  /// kFrontendBytes bytes, all zero at first.
  std::byte* frontend_memory() const;

 private:
  struct Directories;
  struct Layout;
  using Owner = std::tuple<Handle, LockKind, std::uint64_t>;
  explicit HandoverState(Layout& layout);
  void share_opens();
  template <typename Which>
  void forget_unasked_if(Which which);

  Layout& layout_;
  std::unique_ptr<HandoverRecords<Held>> held_;
  std::unique_ptr<HandoverRecords<Wait>> waits_;
  std::unique_ptr<HandoverRecords<Append>> appends_;
  std::unique_ptr<HandoverRecords<Open>> opens_;
  std::unique_ptr<HandoverRecords<LockUse>> lock_uses_;
  std::unique_ptr<HandoverRecords<Directory>> directories_;
  std::uint64_t no_directories_ = 0;
  std::atomic<std::uint32_t> slots_used_ = 0;  // no slot from this index on ever had a request
  std::uint64_t stamp_ = 0;
  std::map<Owner, std::vector<Held*>> pieces_;
  std::mutex append_mutex_;
  std::set<std::uint64_t> inherited_appends_;  // request ids; guarded by append_mutex_
  std::set<std::uint64_t> asked_again_;        // guarded by append_mutex_
};

}  // namespace spate::client
