// SPDX-License-Identifier: Apache-2.0
// How a member carries out the messages of its group's primary.
#include "group/member.h"
#include "log/fields.h"
#include "log/log.h"
#include "model/defect.h"

namespace spate::group {
namespace {

/// Most messages that are carried out at once. A primary sends fewer, but it gives up messages that take too long. So
/// many are under way only if the disk hangs.
constexpr unsigned kMostUnderWay = 4;

struct ScopedCount {
  explicit ScopedCount(unsigned& count_in) : count(count_in) { ++count; }
  ScopedCount(const ScopedCount&) = delete;
  ScopedCount& operator=(const ScopedCount&) = delete;
  ~ScopedCount() { --count; }
  unsigned& count;
};

}  // namespace

/// Whether the sender leads. If the message has a later record, adopts it first.
bool Member::accepts(const Message& message) {
  if (message.kind == MessageKind::kQuery || revision_ == 0 || stopping_.stopped()) return false;
  if (planted(Defect::kEpochUnchecked)) return !resigned_.is_set();
  if (message.epoch != message.record.epoch || message.from != message.record.primary) return false;
  // Adopting the record settles this member's own accusation, so `accusing_` is checked afterwards.
  if (message.epoch >= record_.epoch) adopt(message.record, message.revision);
  if (leader_ != nullptr || resigned_.is_set()) return false;
  if (accusing_ && !planted(Defect::kLateAcknowledgment)) return false;
  return message.epoch == record_.epoch && message.from == record_.primary;
}

/// Uses a remembered answer for a short time, as MetaCore::check_space does: to ask the device costs a system call.
bool Member::short_of_space() {
  constexpr Duration kGood = std::chrono::milliseconds(10);
  const MonoTime now = executor_.now();
  if (now < room_until_) return false;
  if (store_.store().short_of_space()) return true;
  room_until_ = now + kGood;
  return false;
}

job::Task<Answer> Member::answer(std::shared_ptr<const Message> message) {
  Answer answer;
  answer.process = options_.process;
  if (accepts(*message)) {
    if (message->kind != MessageKind::kBeacon) co_await accept(*message, answer);
    // The conditions may have changed while the message was carried out, and an acknowledgment must not belong to an
    // epoch that is over.
    const bool accuses = accusing_ && !planted(Defect::kLateAcknowledgment);
    const bool still = message->epoch == record_.epoch && !accuses && leader_ == nullptr && !resigned_.is_set();
    answer.accepted = still || planted(Defect::kEpochUnchecked);
  }
  if (answer.accepted) {
    heard_ = executor_.now();
    acknowledged_ = executor_.now();
  }
  answer.epoch = record_.epoch;
  answer.revision = revision_;
  answer.last = leader_ != nullptr ? keyval_.last() : log_.last();
  answer.tail_unknown = log_.tail_unknown() && !found_complete();
  answer.incomplete = log_.incomplete();
  answer.short_of_space = short_of_space();
  const bool asks_for_min = message->kind == MessageKind::kQuery && message->number == kAsksForMin;
  if (asks_for_min && revision_ != 0) answer.min = record_.min;
  co_return answer;
}

job::Task<void> Member::accept(const Message& message, Answer& answer) {
  if (under_way_ >= kMostUnderWay) co_return;  // answer.matched stays false
  const ScopedCount one_more(under_way_);
  Result<bool> done = true;
  switch (message.kind) {
    case MessageKind::kProbe: co_await log_.settle(); break;
    case MessageKind::kAppend:
      done = co_await log_.append(message.position, message.entries);
      answer.up_to = message.position.index + message.entries.size();
      break;
    case MessageKind::kSync: {
      const auto synced = co_await log_.sync();
      if (synced) answer.up_to = *synced;
      if (!synced) done = synced.error();
      break;
    }
    case MessageKind::kCopyBegin:
    case MessageKind::kCopyPage:
    case MessageKind::kCopyEnd: done = co_await take_copy(message); break;
    case MessageKind::kHandOver: handed_over_ = true; break;
    default: break;
  }
  if (!done && done.code() != Errc::kCancelled) {
    SPATE_LOG("group", error, "cannot follow group={}: {}", options_.group, done.error());
    resign(std::move(done).error());  // it may hold only a part of the sent entries
  }
  answer.matched = done && *done;
}

job::Task<Result<bool>> Member::take_copy(const Message& message) {
  if (message.process != options_.process || record_.serves(options_.self)) co_return false;
  const bool begins = message.kind == MessageKind::kCopyBegin;
  const bool known = message.epoch == copy_epoch_ && message.copy <= copy_;
  if (begins && known) co_return false;
  const bool next = message.epoch == copy_epoch_ && message.copy == copy_ && message.number == copy_number_;
  if (!begins && !next) co_return false;
  if (begins) copy_number_ = 0;
  copy_epoch_ = message.epoch;
  copy_ = message.copy;
  ++copy_number_;
  Result<void> done;
  switch (message.kind) {
    case MessageKind::kCopyBegin: done = co_await log_.begin_copy(); break;
    case MessageKind::kCopyPage: done = co_await log_.add_page(message.page); break;
    default: done = co_await log_.end_copy(message.position); break;
  }
  if (!done) co_return std::move(done).error();
  co_return true;
}

}  // namespace spate::group
