// SPDX-License-Identifier: Apache-2.0
// Message and Answer: what the members of a group tell each other.
#pragma once

#include <memory>
#include <vector>

#include "group/record.h"
#include "trove/keyval.h"
#include "trove/log_entry.h"

namespace spate::group {

enum class MessageKind : std::uint8_t {
  kQuery = 0,      // how far is your log? Of whatever epoch; obeys nobody
  kBeacon = 1,     // the primary lives
  kProbe = 2,      // as a beacon; the answer says how far the log has come, when all before it has been done
  kAppend = 3,     // entries after `position`
  kSync = 4,       // sync your log; the answer says up to where
  kCopyBegin = 5,  // forget everything: a copy follows
  kCopyPage = 6,   // records of the copy
  kCopyEnd = 7,    // the copy is complete, as of `position`
  kHandOver = 8,   // take over now: the primary's lease has ended
};
inline constexpr std::uint8_t kMessageKinds = 9;

/// An entry is shared by the messages that carry it.
using EntryRef = std::shared_ptr<const Bytes>;

struct Message {
  MessageKind kind = MessageKind::kQuery;
  std::uint32_t group = 0;
  ServerId from;
  std::uint64_t epoch = 0;     // of the primary that sends
  std::uint64_t revision = 0;  // of `record`
  GroupRecord record;          // as the sender knows it; of a query: nothing is adopted from it
  trove::LogPosition position;
  std::vector<EntryRef> entries;
  std::vector<trove::KeyValue> page;
  // Of a copy: it goes to one run of a process, once. A message of another copy, or one that comes twice, is refused:
  // it would bring back what is older, or wipe a member that has come to serve.
  std::uint64_t process = 0;
  std::uint64_t copy = 0;    // counted by the primary in its epoch
  std::uint64_t number = 0;  // of the message within the copy
};

struct Answer {
  bool obeyed = false;         // the sender leads, as far as this member knows
  std::uint64_t epoch = 0;     // that this member obeys
  std::uint64_t revision = 0;  // of the record that it knows
  std::uint64_t process = 0;   // this run of its process
  trove::LogPosition last;     // of its log
  bool matched = false;        // append: the log holds what was sent, and all before it is the sender's
  std::uint64_t up_to = 0;     // append: matched up to here; sync: synced up to here
  bool tail_unknown = false;   // the log may have lost entries that it once held
  bool incomplete = false;     // a copy was begun and not ended
  bool short_of_space = false;
};

/// Of the bytes of a message: entries and page.
inline constexpr std::size_t kMostPayload = std::size_t{8} << 20U;

Bytes encode(const Message& message);
Bytes encode(const Answer& answer);
/// kProtocol for anything that encode() does not make.
Result<Message> decode_message(ByteView bytes);
Result<Answer> decode_answer(ByteView bytes);

}  // namespace spate::group
