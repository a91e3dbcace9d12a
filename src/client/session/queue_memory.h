// SPDX-License-Identifier: Apache-2.0
// QueueMemory: changes of names that a client has answered and not sent yet, in memory that the next process gets
// (docs/mount.md, "Delegated directories").
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "client/session/inherited_memory.h"
#include "model/ids.h"
#include "wire/messages.h"

namespace spate::client {

/// A ring of records in the order of the changes. A killed process may leave the memory between any two machine
/// instructions: a record is there as a whole or not at all, and a change that was sent keeps its number. The number
/// tells the server which changes it has made before.
///
/// All memory is there from the start. Not thread-safe; the caller serialises calls.
class QueueMemory {
 public:
  static constexpr std::size_t kBytes = std::size_t{8} << 20U;

  struct Record {
    std::uint64_t number = 0;  // append() sets it: one more than the last one of the session
    wire::Op op{};
    Handle object;  // that the change makes or changes
    bool makes = false;
    WallTime at;
    std::uint64_t request_id = 0;  // the program's call (client/session/handover_state.h)
    Bytes body;
  };
  /// A range of numbers for new objects.
  struct Range {
    std::uint64_t first = 0;
    std::uint64_t count = 0;
  };
  /// The session, and its epoch, in which the changes were answered. In no other one may they be sent.
  struct Owner {
    ClientId client;
    std::uint32_t epoch = 0;
    friend bool operator==(const Owner&, const Owner&) = default;
  };
  struct Call {
    Handle object;
    wire::Op op{};
  };

  /// Maps the memory behind `fd`, and initialises it if it is empty. Negative: memory of this process alone.
  /// kVersionMismatch: of another version. kCorrupt.
  static Result<std::unique_ptr<QueueMemory>> open(int fd, std::size_t bytes = kBytes);
  QueueMemory(const QueueMemory&) = delete;
  QueueMemory& operator=(const QueueMemory&) = delete;

  const Owner& owner() const { return owner_; }
  /// Another session, or another epoch, begins. Forgets all records and ranges, and begins behind number `last`.
  void begin(Owner owner, std::uint64_t last = 0);

  /// Adds a record, and returns its number. 0: there is no room. When it returns, a next process has the record.
  std::uint64_t append(const Record& record);
  std::uint64_t size() const { return size_; }
  /// The number of the last record that was ever added in this session; 0: none was.
  std::uint64_t last() const { return last_; }
  /// The records from the first with a number above `number` on: at most `most`, and together at most `bytes` of
  /// bodies, but at least one if there is any.
  std::vector<Record> after(std::uint64_t number, std::size_t most, std::size_t bytes) const;
  /// Removes all records up to this number. The server has made these changes, or has refused them.
  void drop_until(std::uint64_t number);

  /// Keeps a range that the server has reserved. False: it is kept already, was used, or two are kept.
  bool add_range(Range range);
  /// How many numbers are left.
  std::uint64_t handles_left() const;
  /// The next number for a new object. No handle: none is left. A next process uses only later ones.
  Handle take_handle();

  /// The program's call `request_id` was answered, so that the kernel will not repeat it.
  void call_answered(std::uint64_t request_id);
  /// A call that an earlier process has queued and perhaps not answered.
  std::optional<Call> inherited_call(std::uint64_t request_id) const;
  /// Whether an earlier process has left records.
  bool inherited() const { return inherited_; }

  /// Counts changes that were lost or refused, in this process and all earlier ones.
  void note_loss();
  std::uint64_t losses() const;
  /// The directory and the name that the record makes or removes. No directory: it does neither.
  static wire::NamePath name_of(const Record& record);
  /// Whether the record is an open for reading, or its close. No program misses it if it is lost.
  static bool is_of_reader(const Record& record);
  /// Whether such a record changes nothing at all: it does not even set atime.
  static bool changes_nothing(const Record& record);
  /// Says for people what the record would have changed.
  static std::string text(const Record& record);
  /// The texts of all records without which something is lost.
  std::vector<std::string> texts() const;

 private:
  struct Header;
  struct Front;
  struct CallSlot;
  explicit QueueMemory(InheritedMemory memory);
  void load();
  void put(std::uint64_t at, const void* from, std::size_t size);
  void get(std::uint64_t at, void* to, std::size_t size) const;
  Front front_at(std::uint64_t at) const;
  void index_calls();

  const InheritedMemory memory_;
  Header& header_;
  std::byte* const ring_;
  const std::uint64_t capacity_;
  Owner owner_;
  std::uint64_t size_ = 0;
  std::uint64_t last_ = 0;
  bool inherited_ = false;
  std::unordered_map<std::uint64_t, std::size_t> calls_;  // their slots by request_id
  std::vector<std::size_t> free_calls_;
};

}  // namespace spate::client
