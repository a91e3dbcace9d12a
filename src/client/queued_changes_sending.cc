// SPDX-License-Identifier: Apache-2.0
// Queued changes on their way to the meta server.
#include <algorithm>
#include <utility>

#include "base/printable.h"
#include "client/queued_changes.h"
#include "client/session/session.h"
#include "job/deadline.h"
#include "log/fields.h"
#include "log/log.h"

namespace spate::client {
namespace {

/// The oldest change waits no longer.
constexpr Duration kQueueAge = std::chrono::milliseconds(100);
/// Below the limit of one request of the network, with what surrounds the bodies.
constexpr std::size_t kBatchBytes = std::size_t{160} << 10U;
constexpr std::uint32_t kBatchRoom = 1U << 20U;
constexpr Duration kRetryPause = std::chrono::milliseconds(100);
constexpr std::size_t kMostKeptFailures = 1000;

/// The server will never make these changes as they are.
bool refuses_for_good(Errc code) {
  return code == Errc::kProtocol || code == Errc::kInvalidArgument || code == Errc::kNotSupported ||
         code == Errc::kMessageTooBig;
}

}  // namespace

struct QueuedChanges::Batch {
  std::vector<QueueMemory::Record> records;
  LocalAnswers::Answered answer;
  std::uint64_t lives = 0;
};

void QueuedChanges::wake() {
  want_handles();
  urge();
}

/// Something may be due now.
void QueuedChanges::urge() {
  urged_.set();
  begin_sending();
}

void QueuedChanges::begin_sending() {
  if (sending_ || !any() || stopping_.stopped()) return;
  sending_ = true;
  if (!job::spawn(gate_, send_while_any())) sending_ = false;
}

job::Task<void> QueuedChanges::send_while_any() {
  co_await session_.executor().yield();  // the limits of the call that needs this belong to that call
  while (!stopping_.stopped()) {
    {
      const std::lock_guard lock(mutex_);
      if (memory_->size() == 0) {
        called_ = false;
        break;
      }
    }
    co_await wait_until_due();
    if (stopping_.stopped()) break;
    const bool sent = co_await send_batch();
    if (!sent) std::ignore = co_await session_.executor().sleep(kRetryPause, stopping_);
  }
  sending_ = false;
  answered_.set();
}

bool QueuedChanges::due() const {
  if (waiters_ > 0 || size_ >= kFull) return true;
  const std::lock_guard lock(mutex_);
  return !oldest_ || session_.executor().now() - *oldest_ >= kQueueAge;
}

job::Task<void> QueuedChanges::wait_until_due() {
  while (!due() && !stopping_.stopped()) {
    MonoTime at = session_.executor().now() + kQueueAge;
    {
      const std::lock_guard lock(mutex_);
      if (oldest_) at = *oldest_ + kQueueAge;
    }
    urged_.reset();
    job::DeadlineScope scope(session_.executor(), at, stopping_);
    std::ignore = co_await urged_.wait(scope.token());
  }
}

/// Sends the next changes, until the server has answered them. False: they must be sent again.
job::Task<bool> QueuedChanges::send_batch() {
  Batch batch;
  batch.lives = lives_;
  wire::QueuedChangesRequest request;
  Limits limits = session_.limits(stopping_);
  limits.deadline = MonoTime::never();
  {
    const std::lock_guard lock(mutex_);
    batch.records = memory_->after(done_, wire::kMostBatched, kBatchBytes);
    limits.only_in = rpc::SessionEpoch{memory_->owner().client, memory_->owner().epoch};
    oldest_ = session_.executor().clock().now();  // of those that come later
  }
  if (batch.records.empty()) co_return true;
  request.first = batch.records.front().number;
  for (QueueMemory::Record& record : batch.records)
    request.changes.push_back({record.op, record.body, record.at, record.makes ? record.object : Handle()});
  batch.answer.asked = session_.executor().now();
  batch.answer.last = batch.records.back().number;
  Bytes body;
  wire::encode_body(request, body);
  const auto reply = co_await session_.send_numbered(wire::Op::kQueuedChanges, body, limits, kBatchRoom);
  if (batch.lives != lives_) co_return true;  // they were given up
  if (reply) {
    ++batches_;
    answered(batch, *reply);
    co_return true;
  }
  if (session_ended(reply.code()) || refuses_for_good(reply.code())) {
    lose_all(reply.error());
    if (refuses_for_good(reply.code())) end_queueing();
  }
  co_return false;
}

void QueuedChanges::answered(const Batch& batch, const ChangeReply& reply) {
  auto decoded = wire::decode_body<wire::QueuedChangesReply>(reply.raw.body);
  LocalAnswers::Answered answer = batch.answer;
  for (const QueueMemory::Record& record : batch.records) {
    if (record.op == wire::Op::kMkdir) answer.made_directories.insert(record.object);
  }
  const bool told = decoded && decoded->answers.size() == batch.records.size();
  if (told && reply.lists != nullptr) {
    local_.end(answer, reply.lists->touched, reply.lists->granted);
  } else {
    local_.end(answer, wire::Touched(), wire::Granted());
  }
  for (std::size_t i = 0; told && i < batch.records.size(); ++i) note_answer(batch.records[i], decoded->answers[i]);
  {
    const std::lock_guard lock(mutex_);
    done_ = answer.last;
    memory_->drop_until(done_);
    size_ = memory_->size();
    for (const QueueMemory::Record& record : batch.records) {
      const auto found = last_changes_.find(record.object);
      if (found != last_changes_.end() && found->second <= done_) last_changes_.erase(found);
    }
    if (memory_->size() == 0) last_changes_.clear();
  }
  answered_.set();
  want_handles();
}

void QueuedChanges::note_answer(const QueueMemory::Record& record, wire::BatchedAnswer& answer) {
  if (answer.status != Errc::kOk) {
    return note_failure(record, wire::error_of(answer.status, std::move(answer.context)));
  }
  if (record.op == wire::Op::kClose) answers_.erase(record.object);
  if (record.op != wire::Op::kCreate) return;
  auto created = wire::decode_body<wire::CreateReply>(answer.body);
  const bool opened = created && created->capability.rights != Rights::kNone;
  if (opened) answers_[record.object] = *std::move(created);
}

void QueuedChanges::note_failure(const QueueMemory::Record& record, const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    memory_->note_loss();
  }
  const std::string name = name_of_ ? name_of_(record.object) : std::string();
  SPATE_LOG("client", error, "a change that was answered has failed {}{} error={}",
            name.empty() ? std::string() : escape_controls(fmt::format("path={} ", log::Quoted{name})),
            QueueMemory::text(record), error);
  local_.forget(record.object);
  answers_.erase(record.object);
  if (failures_.size() < kMostKeptFailures) failures_.emplace(record.object, error);
  failed_ = failures_.size();
  // The kept names and attributes of the directory are wrong.
  if (record.makes) local_.forget(QueueMemory::made_at(record).start);
}

std::optional<Error> QueuedChanges::take_failure(Handle object) {
  const auto found = failures_.find(object);
  if (found == failures_.end()) return std::nullopt;
  Error error = std::move(found->second);
  failures_.erase(found);
  failed_ = failures_.size();
  return error;
}

}  // namespace spate::client
