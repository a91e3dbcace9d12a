// SPDX-License-Identifier: Apache-2.0
#include "client/change_log.h"

#include <algorithm>
#include <utility>

#include "client/session/session.h"

namespace spate::client {
namespace {

/// With fewer, more are asked for.
constexpr std::uint64_t kFewHandles = wire::kMostReserved;
/// Below the limit of one request of the network, with what surrounds the bodies.
constexpr std::size_t kBatchBytes = std::size_t{160} << 10U;

bool ends_writing(const QueueMemory::Record& record) {
  if (record.op != wire::Op::kClose) return false;
  const auto close = wire::decode_body<wire::CloseRequest>(record.body);
  return close && allows(close->rights, Rights::kWrite);
}

}  // namespace

ChangeLog::ChangeLog(Session& session, QueueMemory* memory) : session_(session), memory_(memory) {
  if (memory_ == nullptr) return;
  size_ = memory_->size();
  for (const QueueMemory::Record& record : memory_->after(0, ~std::size_t{0}, ~std::size_t{0})) {
    note(record, record.number);
    last_time_ = std::max(last_time_, record.at);
    if (ends_writing(record)) closed_before_.insert(record.object);
  }
}

WallTime ChangeLog::time(WallTime least) {
  const std::lock_guard lock(mutex_);
  const WallTime now{session_.executor().clock().now().since_start.count() + clock_offset_ns_};
  return last_time_ = std::max({now, least, last_time_});
}

Handle ChangeLog::take_handle() {
  const std::lock_guard lock(mutex_);
  return ended_ ? Handle() : memory_->take_handle();
}

bool ChangeLog::add(Change change) {
  bool call = false;
  {
    const std::lock_guard lock(mutex_);
    if ((ended_ && !change.answered) || !numbered()) return false;
    QueueMemory::Record record;
    record.op = change.op;
    record.object = change.object;
    record.makes = change.makes;
    record.at = change.at;
    record.request_id = change.request_id;
    record.body = std::move(change.body);
    const std::uint64_t number = memory_->append(record);
    if (number == 0) return false;
    note(record, number);
    if (change.directory) last_changes_[change.directory] = number;
    if (!oldest_) oldest_ = session_.executor().clock().now();
    const std::uint64_t size = ++size_;
    if (!change.answered) ++added_;
    // The sender sleeps until a batch is due, except when the first change comes.
    const bool few_handles = change.makes && memory_->handles_left() == kFewHandles - 1;
    call = !std::exchange(called_, true) || size == kFull || few_handles;
  }
  if (call) wake_();
  return true;
}

bool ChangeLog::changed_after(Handle object, std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = last_changes_.find(object);
  return found != last_changes_.end() && found->second > number;
}

const Credential& ChangeLog::credential() const { return session_.options().credential; }

bool ChangeLog::has(Handle object) const {
  if (!any()) return false;
  const std::lock_guard lock(mutex_);
  return last_changes_.contains(object) || last_opens_.contains(object);
}

bool ChangeLog::changes(Handle object) const {
  if (!any()) return false;
  const std::lock_guard lock(mutex_);
  return last_changes_.contains(object);
}

bool ChangeLog::makes(Handle object) const {
  if (!any()) return false;
  const std::lock_guard lock(mutex_);
  return made_.contains(object);
}

/// Call it with the lock held.
void ChangeLog::note(const QueueMemory::Record& record, std::uint64_t number) {
  (QueueMemory::changes_nothing(record) ? last_opens_ : last_changes_)[record.object] = number;
  if (record.makes) made_.insert(record.object);
}

std::uint64_t ChangeLog::last() const {
  const std::lock_guard lock(mutex_);
  return memory_->last();
}

std::optional<QueueMemory::Call> ChangeLog::inherited_call(std::uint64_t request_id) const {
  if (memory_ == nullptr) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return memory_->inherited_call(request_id);
}

void ChangeLog::call_answered(std::uint64_t request_id) {
  if (memory_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  memory_->call_answered(request_id);
}

void ChangeLog::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
}

// The session.

QueueMemory::Owner ChangeLog::owner() const {
  const std::lock_guard lock(mutex_);
  return memory_->owner();
}

void ChangeLog::begin(QueueMemory::Owner owner, std::uint64_t last) {
  const std::lock_guard lock(mutex_);
  memory_->begin(owner, last);
}

void ChangeLog::set_clock_offset(std::int64_t ns) {
  const std::lock_guard lock(mutex_);
  clock_offset_ns_ = ns;
}

bool ChangeLog::knows_numbers() const {
  const std::lock_guard lock(mutex_);
  return numbered();
}

bool ChangeLog::needs_handles() const {
  const std::lock_guard lock(mutex_);
  return !ended_ && memory_->handles_left() < kFewHandles;
}

void ChangeLog::add_handles(QueueMemory::Range range) {
  const std::lock_guard lock(mutex_);
  std::ignore = memory_->add_range(range);
}

// The sender.

std::optional<MonoTime> ChangeLog::oldest() const {
  const std::lock_guard lock(mutex_);
  return oldest_;
}

ChangeLog::Batch ChangeLog::batch(std::uint64_t done) {
  const std::lock_guard lock(mutex_);
  oldest_ = session_.executor().clock().now();  // of those that come later
  return {memory_->after(done, wire::kMostBatched, kBatchBytes), memory_->owner()};
}

void ChangeLog::drop(const std::vector<QueueMemory::Record>& answered) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t last = answered.back().number;
  memory_->drop_until(last);
  size_ = memory_->size();
  for (const QueueMemory::Record& record : answered) {
    if (record.makes) made_.erase(record.object);
    for (auto* const numbers : {&last_changes_, &last_opens_}) {
      const auto found = numbers->find(record.object);
      if (found != numbers->end() && found->second <= last) numbers->erase(found);
    }
  }
  if (memory_->size() == 0) last_changes_.clear();
}

bool ChangeLog::sleeps() {
  const std::lock_guard lock(mutex_);
  if (memory_->size() > 0) return false;
  called_ = false;
  return true;
}

std::vector<QueueMemory::Record> ChangeLog::take_all() {
  const std::lock_guard lock(mutex_);
  auto records = memory_->after(0, ~std::size_t{0}, ~std::size_t{0});
  memory_->drop_until(memory_->last());
  size_ = 0;
  last_changes_.clear();
  last_opens_.clear();
  made_.clear();
  return records;
}

void ChangeLog::note_loss() {
  const std::lock_guard lock(mutex_);
  memory_->note_loss();
}

ChangeLog::Counters ChangeLog::counters() const {
  const std::lock_guard lock(mutex_);
  return {added_, memory_->losses()};
}

}  // namespace spate::client
