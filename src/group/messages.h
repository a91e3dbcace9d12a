// SPDX-License-Identifier: Apache-2.0
// Message and Answer: the messages between the members of a group.
#pragma once

#include <memory>
#include <vector>

#include "group/record.h"
#include "trove/keyval.h"
#include "trove/log_entry.h"

namespace spate::group {

enum class MessageKind : std::uint8_t {
  kQuery = 0,      // asks how far the log has come, in any epoch; the receiver does not accept the sender by it
  kBeacon = 1,     // the primary is alive
  kProbe = 2,      // as a beacon; the answer reports the log's end after all earlier messages were carried out
  kAppend = 3,     // entries after `position`
  kSync = 4,       // sync your log; the answer reports up to which entry
  kCopyBegin = 5,  // erase everything: a copy follows
  kCopyPage = 6,   // records of the copy
  kCopyEnd = 7,    // the copy is complete; its state is that of `position`
  kHandOver = 8,   // take over now: the primary's lease has ended
};
inline constexpr std::uint8_t kMessageKinds = 9;

/// An entry is shared by the messages that carry it.
using EntryRef = std::shared_ptr<const Bytes>;

struct Message {
  MessageKind kind = MessageKind::kQuery;
  std::uint32_t group = 0;
  ServerId from;
  std::uint64_t epoch = 0;     // the sending primary's
  std::uint64_t revision = 0;  // of `record`
  GroupRecord record;          // as the sender knows it; the receiver of a query adopts nothing from it
  trove::LogPosition position;
  std::vector<EntryRef> entries;
  std::vector<trove::KeyValue> page;
  // A message of a copy is meant for one run of a process, once. The receiver refuses a message of another copy, and
  // one that comes twice: such a message would restore older records, or erase a member that serves by now.
  std::uint64_t process = 0;
  std::uint64_t copy = 0;    // the primary counts its copies within its epoch
  std::uint64_t number = 0;  // of the message within the copy; of a query: kAsksForMin or 0
};

/// `number` of a query that wants to know the record's `min`. Earlier versions neither ask for it nor tell it.
inline constexpr std::uint64_t kAsksForMin = 1;

struct Answer {
  bool accepted = false;       // this member considers the sender its leader
  std::uint64_t epoch = 0;     // the epoch that this member accepts
  std::uint64_t revision = 0;  // of the record that it knows
  std::uint64_t process = 0;   // this run of its process
  trove::LogPosition last;     // of its log
  bool matched = false;        // append: the log has the sent entries, and all before them are the sender's
  std::uint64_t up_to = 0;     // append: the log agrees up to here; sync: synced up to here
  bool tail_unknown = false;   // the log may have lost entries that it once had
  bool incomplete = false;     // a copy was begun and has not ended
  bool short_of_space = false;
  std::uint32_t min = 0;  // of the record that it knows; 0: it was not asked, or knows none
};

/// Most bytes of entries and page in one message.
inline constexpr std::size_t kMostPayload = std::size_t{8} << 20U;

Bytes encode(const Message& message);
Bytes encode(const Answer& answer);
/// kProtocol for bytes that encode() cannot produce.
Result<Message> decode_message(ByteView bytes);
Result<Answer> decode_answer(ByteView bytes);

}  // namespace spate::group
