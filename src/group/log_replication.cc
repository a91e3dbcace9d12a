// SPDX-License-Identifier: Apache-2.0
// How a leader brings the other members up to date: with entries, or with a copy of everything.
#include <algorithm>

#include "group/leader.h"
#include "log/fields.h"
#include "log/log.h"
#include "model/defect.h"
#include "trove/key_order.h"
#include "trove/log_entry.h"

namespace spate::group {
namespace {

constexpr std::size_t kBatchBytes = std::size_t{1} << 20U;
constexpr std::size_t kBatchEntries = 1024;
constexpr std::size_t kPageRecords = 2048;
constexpr std::size_t kPageBytes = std::size_t{512} << 10U;
constexpr Duration kAgain = std::chrono::milliseconds(50);

}  // namespace

job::Task<Result<Answer>> Leader::ask(Follower& follower, std::shared_ptr<const Message> message, Duration timeout) {
  SPATE_CO_TRY(auto answer, co_await link_.send(follower.server, std::move(message), timeout, stopping_));
  if (stopping_.stopped()) co_return Errc::kCancelled;
  if (!note(follower, answer)) co_return Error(Errc::kConflict, "a member that does not accept this leader");
  co_return std::move(answer);
}

job::Task<void> Leader::feed(Follower& follower) {
  const job::StopToken stop(stopping_);
  while (!stop.stopped()) {
    Result<void> done = Errc::kUnknown;
    switch (follower.state) {
      case Follower::State::kProbe: done = co_await probe(follower); break;
      case Follower::State::kStream: done = co_await send_entries(follower); break;
      case Follower::State::kCopy:
        // No copy is made while others may assume that the member has everything.
        if (!follower.required) done = co_await copy(follower);
        break;
    }
    if (!done) std::ignore = co_await executor_.sleep(kAgain, stop);
  }
}

job::Task<Result<void>> Leader::probe(Follower& follower) {
  const std::shared_ptr<const Message> question = message(MessageKind::kProbe);
  SPATE_CO_TRY(const Answer answer, co_await ask(follower, question, options_.timing.message));
  if (!answer.matched) co_return Errc::kTryAgain;  // the member has too much under way
  const trove::LogPosition last = answer.last;
  bool ours = false;
  if (!answer.incomplete && last.index <= keyval_.last().index) {
    SPATE_CO_TRY(const auto epoch, co_await epoch_of(last.index));
    ours = epoch && *epoch == last.epoch;
  }
  follower.process = answer.process;
  if (!ours && !planted(Defect::kLogNotCut)) {
    follower.state = Follower::State::kCopy;
    co_return Result<void>();
  }
  // If two logs agree on the epoch of an entry, they agree on everything up to it.
  follower.state = Follower::State::kStream;
  follower.matched = std::min(last.index, keyval_.last().index);
  follower.next = follower.matched + 1;
  follower.synced = 0;
  pulse();
  co_return Result<void>();
}

job::Task<Result<std::optional<std::uint64_t>>> Leader::epoch_of(std::uint64_t index) {
  using Epoch = std::optional<std::uint64_t>;
  if (index == recent_.before().index) co_return Epoch(recent_.before().epoch);
  if (index > recent_.before().index) {
    const auto* const found = recent_.find(index);
    co_return found != nullptr ? Epoch(found->at.epoch) : Epoch();
  }
  auto epoch = co_await log_.epoch_of(index);
  co_return epoch;
}

job::Task<Result<Leader::Batch>> Leader::collect(std::uint64_t next) {
  Batch batch;
  SPATE_CO_TRY(const auto epoch, co_await epoch_of(next - 1));
  if (!epoch) co_return Error(Errc::kNotFound, "an entry that is not kept any more");
  batch.before = {*epoch, next - 1};
  if (next <= recent_.before().index) {
    SPATE_CO_TRY(batch.entries, co_await log_.entries_from(next, kBatchBytes));
    const bool kept = !batch.entries.empty() && trove::position_of_entry(*batch.entries.front()).index == next;
    if (!kept) co_return Error(Errc::kNotFound, "an entry that is not kept any more");
    co_return batch;
  }
  std::size_t bytes = 0;
  while (bytes < kBatchBytes && batch.entries.size() < kBatchEntries) {
    const auto* const found = recent_.find(next++);
    if (found == nullptr) break;
    bytes += found->entry->size();
    batch.entries.push_back(found->entry);
  }
  co_return batch;
}

job::Task<Result<void>> Leader::send_entries(Follower& follower) {
  if (follower.next > keyval_.last().index) {
    auto woken = co_await new_entry_.wait(stopping_);
    co_return woken;
  }
  // Requests that have come with the last answer go into this message, too. To look for them costs a system call, which
  // is in vain as long as one client alone makes changes.
  if (follower.sent > 1) co_await executor_.yield();
  auto batch = co_await collect(follower.next);
  if (!batch || batch->entries.empty()) {
    if (batch.code() == Errc::kNotFound) follower.state = Follower::State::kCopy;
    co_return Errc::kTryAgain;
  }
  follower.sent = batch->entries.size();
  const std::uint64_t sent_up_to = batch->before.index + follower.sent;
  const auto entries = message(MessageKind::kAppend);
  entries->position = batch->before;
  entries->entries = std::move(batch->entries);
  const std::shared_ptr<const Message> sent = entries;
  SPATE_CO_TRY(const Answer answer, co_await ask(follower, sent, options_.timing.message));
  if (follower.state != Follower::State::kStream) co_return Result<void>();  // another run of the process has answered
  if (!answer.matched) {
    follower.state = Follower::State::kProbe;
    co_return Errc::kTryAgain;
  }
  if (sent_up_to > follower.matched) follower.progressed = executor_.now();
  follower.matched = std::max(follower.matched, sent_up_to);
  follower.next = follower.matched + 1;
  pulse();
  co_return Result<void>();
}

/// A copy in progress. Its messages go one after another; each is answered before the next one is sent.
struct Leader::Copy {
  std::uint64_t process = 0;
  std::uint64_t copy = 0;
  std::uint64_t number = 0;
};

job::Task<Result<void>> Leader::send_copy(Follower& follower, Copy& copy, std::shared_ptr<Message> message) {
  message->process = copy.process;
  message->copy = copy.copy;
  message->number = copy.number++;
  const std::shared_ptr<const Message> sent = std::move(message);
  SPATE_CO_TRY(const Answer answer, co_await ask(follower, sent, options_.timing.copy_message));
  if (!answer.matched || answer.process != copy.process) co_return Errc::kTryAgain;
  co_return Result<void>();
}

job::Task<Result<void>> Leader::copy(Follower& follower) {
  // The member's process may have restarted since the probe.
  const std::shared_ptr<const Message> question = message(MessageKind::kProbe);
  SPATE_CO_TRY(const Answer there, co_await ask(follower, question, options_.timing.message));
  SPATE_LOG("group", info, "a member receives a copy of everything group={} server={}", options_.group,
            follower.server);
  job::Transaction snapshot(store_, keyval_.begin_unlogged());
  const Bytes position_key = trove::group_key(trove::GroupKey::kPosition);
  const auto position = co_await snapshot.get(position_key, trove::ReadMode::kSnapshot);
  if (position.status != Errc::kOk) co_return position.status;
  trove::PositionRecord at;
  if (position.value) {
    SPATE_CO_TRY(at, trove::decode_position(*position.value));
  }
  Copy copy{there.process, ++copies_, 0};
  auto begin = message(MessageKind::kCopyBegin);
  SPATE_CO_TRY(std::ignore, co_await send_copy(follower, copy, std::move(begin)));
  SPATE_CO_TRY(std::ignore, co_await copy_pages(follower, copy, snapshot));
  auto end = message(MessageKind::kCopyEnd);
  end->position = at.last;
  SPATE_CO_TRY(std::ignore, co_await send_copy(follower, copy, std::move(end)));
  follower.state = Follower::State::kProbe;
  co_return Result<void>();
}

job::Task<Result<void>> Leader::copy_pages(Follower& follower, Copy& copy, job::Transaction& snapshot) {
  trove::KeyRange range;
  range.end = {trove::kGroupKeys};
  range.limit = kPageRecords;
  range.mode = trove::ReadMode::kSnapshot;
  for (bool more = true; more;) {
    auto found = co_await snapshot.range(range);
    if (found.status != Errc::kOk) co_return found.status;
    auto page = message(MessageKind::kCopyPage);
    std::size_t bytes = 0;
    const std::size_t records = found.entries.size();
    for (trove::KeyValue& each : found.entries) {
      if (bytes > kPageBytes) break;
      bytes += each.key.size() + each.value.size();
      page->page.push_back(std::move(each));
    }
    if (page->page.empty()) break;
    more = found.more || page->page.size() < records;
    range.begin = trove::key_after(page->page.back().key);
    SPATE_CO_TRY(std::ignore, co_await send_copy(follower, copy, std::move(page)));
  }
  co_return Result<void>();
}

}  // namespace spate::group
