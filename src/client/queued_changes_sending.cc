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
constexpr std::uint32_t kBatchRoom = 1U << 20U;
constexpr Duration kRetryPause = std::chrono::milliseconds(100);

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

void QueuedChanges::send_soon() {
  soon_ = true;
  urge();
}

/// Something may be due now.
void QueuedChanges::urge() {
  urged_.set();
  begin_sending();
}

void QueuedChanges::begin_sending() {
  if (sending_ || !log_.any() || stopping_.stopped()) return;
  sending_ = true;
  if (!job::spawn(gate_, send_while_any())) sending_ = false;
}

job::Task<void> QueuedChanges::send_while_any() {
  co_await session_.executor().yield();  // the limits of the call that needs this belong to that call
  while (!stopping_.stopped()) {
    if (log_.sleeps()) break;
    co_await wait_until_due();
    if (stopping_.stopped()) break;
    const bool sent = co_await send_batch();
    if (!sent) std::ignore = co_await session_.executor().sleep(kRetryPause, stopping_);
  }
  sending_ = false;
  answered_.set();
}

bool QueuedChanges::due() const {
  if (waiters_ > 0 || soon_ || log_.size() >= kFull) return true;
  const auto oldest = log_.oldest();
  return !oldest || session_.executor().now() - *oldest >= kQueueAge;
}

job::Task<void> QueuedChanges::wait_until_due() {
  while (!due() && !stopping_.stopped()) {
    const MonoTime at = log_.oldest().value_or(session_.executor().now()) + kQueueAge;
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
  ChangeLog::Batch next = log_.batch(done_);
  soon_ = false;
  if (next.records.empty()) co_return true;
  batch.records = std::move(next.records);
  limits.only_in = rpc::SessionEpoch{next.owner.client, next.owner.epoch};
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
  const bool nothing = told && reply.lists != nullptr && reply.lists->touched.known &&
                       std::all_of(batch.records.begin(), batch.records.end(), QueueMemory::changes_nothing);
  if (nothing) {
    // The leases are as before.
  } else if (told && reply.lists != nullptr) {
    local_.end(answer, reply.lists->touched, reply.lists->granted);
  } else {
    local_.end(answer, wire::Touched(), wire::Granted());
  }
  for (std::size_t i = 0; told && i < batch.records.size(); ++i) note_answer(batch.records[i], decoded->answers[i]);
  done_ = answer.last;
  log_.drop(batch.records);
  answered_.set();
  if (data_ != nullptr) data_->send_closed();
  want_handles();
}

void QueuedChanges::note_answer(const QueueMemory::Record& record, wire::BatchedAnswer& answer) {
  if (answer.status != Errc::kOk) {
    return note_failure(record, wire::error_of(answer.status, std::move(answer.context)));
  }
  if (record.op == wire::Op::kClose) {
    const auto close = wire::decode_body<wire::CloseRequest>(record.body);
    const auto found = answers_.find(record.object);
    const bool of_creator = close && found != answers_.end() && found->second.capability.rights == close->rights;
    if (of_creator) answers_.erase(found);
  }
  if (record.op != wire::Op::kCreate) return;
  auto created = wire::decode_body<wire::CreateReply>(answer.body);
  const bool opened = created && created->capability.rights != Rights::kNone;
  if (opened) answers_[record.object] = *std::move(created);
}

void QueuedChanges::note_failure(const QueueMemory::Record& record, const Error& error) {
  if (QueueMemory::is_of_reader(record)) return local_.forget(record.object);
  log_.note_loss();
  const std::string name = name_of_ ? name_of_(record.object) : std::string();
  SPATE_LOG("client", error, "a change that was answered has failed {}{} error={}",
            name.empty() ? std::string() : escape_controls(fmt::format("path={} ", log::Quoted{name})),
            QueueMemory::text(record), error);
  local_.forget(record.object);
  answers_.erase(record.object);
  failures_.keep(record.object, error);
  // The kept names and attributes of the directory are wrong.
  const Handle directory = QueueMemory::name_of(record).start;
  if (directory) local_.forget(directory);
}

}  // namespace spate::client
