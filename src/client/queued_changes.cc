// SPDX-License-Identifier: Apache-2.0
#include "client/queued_changes.h"

#include <algorithm>
#include <utility>

#include "client/session/session.h"
#include "job/deadline.h"
#include "log/fields.h"
#include "log/log.h"

namespace spate::client {

QueuedChanges::QueuedChanges(Session& session, AttributeCache& attributes, QueueMemory* memory)
    : session_(session),
      log_(session, memory),
      held_(log_),
      local_(attributes, log_, held_),
      urged_(session.executor()),
      answered_(session.executor()),
      gate_(session.executor()) {
  log_.wake_by([this] { session_.executor().post([this] { wake(); }); });
  if (memory != nullptr) done_ = memory->last() - memory->size();
}

// Answers, by any thread.

std::optional<Result<Attributes>> QueuedChanges::make(const NewObject& made, std::uint64_t request_id) {
  if (!on()) return std::nullopt;
  return local_.make(made, request_id);
}

std::optional<Result<Attributes>> QueuedChanges::set(wire::SetattrRequest request, std::uint64_t request_id) {
  if (!on()) return std::nullopt;
  return local_.set(std::move(request), request_id);
}

bool QueuedChanges::write(const HeldChanges::Write& write) {
  if (!on()) return false;
  const std::uint64_t end = write.offset + write.bytes.size();
  return local_.write(write.file.handle, end, [&](WallTime now) { return held_.keep(write, now); });
}

bool QueuedChanges::close(const Close& close, std::uint64_t request_id) {
  if (!on()) return false;
  wire::CloseRequest request;
  request.handle = close.file;
  request.rights = close.rights;
  if (allows(close.rights, Rights::kWrite)) request.data = wire::DataSummary();
  request.atime = close.read_at;
  if (!local_.close(request, request_id).has_value()) return false;
  if (!held_.has(close.file) || log_.has(close.file)) return true;  // the answer to the creation sends the data
  session_.executor().post([this] {
    if (data_ != nullptr) data_->send_closed();
  });
  return true;
}

QueuedChanges::Counters QueuedChanges::counters() const {
  if (!on()) return {};
  const ChangeLog::Counters log = log_.counters();
  return {log.added + held_.held(), batches_.load(), log_.size() + held_.files(), log.lost};
}

// Waits.

job::Task<Result<void>> QueuedChanges::send_all(Limits limits) {
  if (!any()) co_return Result<void>();
  SPATE_CO_TRY(std::ignore, co_await send_changes(limits));
  if (!held_.any() || data_ == nullptr) co_return Result<void>();
  SPATE_CO_TRY(std::ignore, co_await data_->send_all(limits));
  auto sent = co_await send_changes(limits);
  co_return sent;
}

job::Task<Result<void>> QueuedChanges::send_changes(Limits limits) {
  if (!log_.any()) co_return Result<void>();
  const std::uint64_t last = log_.last();
  const std::uint64_t lives = lives_;
  job::DeadlineScope scope(session_.executor(), limits.deadline, limits.stop);
  ++waiters_;
  Result<void> waited;
  while (done_ < last && lives == lives_ && waited && !stopping_.stopped()) {
    answered_.reset();
    urge();
    waited = co_await answered_.wait(scope.token());
  }
  --waiters_;
  if (!waited && waited.code() == Errc::kTimeout)
    co_return Error(Errc::kTimeout, session_.meta().name() + " has not answered earlier changes");
  co_return waited;
}

job::Task<bool> QueuedChanges::send_all_within(Duration limit) {
  Limits limits = session_.limits(stopping_);
  limits.deadline = session_.executor().now() + limit;
  const auto sent = co_await send_all(limits);
  co_return sent.has_value();
}

job::Task<Result<wire::CreateReply>> QueuedChanges::answer_of(Handle file, Limits limits) {
  if (log_.has(file)) {
    SPATE_CO_TRY(std::ignore, co_await send_changes(limits));
  }
  if (const auto failure = failures_.take(file)) co_return *failure;
  const auto found = answers_.find(file);
  if (found == answers_.end()) co_return Error(Errc::kNotFound, "the answer to its creation is not kept");
  wire::CreateReply reply = std::move(found->second);
  answers_.erase(found);
  co_return reply;
}

// Files whose data wait for their creation.

Result<bool> QueuedChanges::add_later(const GatherMemory::Piece& piece, const std::optional<wire::DataSummary>& data) {
  if (!on()) return Errc::kCancelled;
  if (log_.owner() != QueueMemory::Owner{piece.client, piece.epoch}) return Errc::kSessionFenced;
  return local_.add_later(piece.handle, data);
}

// The session.

void QueuedChanges::session_changed() {
  if (!on()) return;
  const rpc::SessionEpoch session = session_.identity().session();
  heard();
  const QueueMemory::Owner owner{session.client, session.epoch};
  if (log_.owner() == owner) return;
  lose_all(Error(Errc::kSessionFenced, "the session has ended"));
  answers_.clear();
  log_.begin(owner);
  done_ = 0;
}

void QueuedChanges::heard() {
  log_.set_clock_offset(session_.fs_time().ns - session_.executor().now().since_start.count());
  log_.take_removals((session_.meta().features() & wire::kFeatureRemoves) != 0);
}

void QueuedChanges::delegated(Handle directory) {
  directory_ = directory;
  want_handles();
}

void QueuedChanges::want_handles() {
  if (!on() || reserving_ || !directory_ || stopping_.stopped() || !log_.needs_handles()) return;
  reserving_ = true;
  if (!job::spawn(gate_, reserve(directory_))) reserving_ = false;
}

job::Task<void> QueuedChanges::reserve(Handle directory) {
  co_await session_.executor().yield();  // the limits of the call that needs this belong to that call
  wire::ReserveHandlesRequest request;
  request.directory = directory;
  request.count = wire::kMostReserved;
  Limits limits = session_.limits(stopping_);
  const rpc::SessionEpoch epoch = session_.identity().session();
  limits.only_in = epoch;
  Bytes body;
  wire::encode_body(request, body);
  const auto raw = co_await session_.send_change(wire::Op::kReserveHandles, body, limits);
  reserving_ = false;
  const auto reply = raw ? wire::decode_body<wire::ReserveHandlesReply>(raw->raw.body)
                         : Result<wire::ReserveHandlesReply>(raw.error());
  if (!reply || epoch != session_.identity().session()) {
    if (!reply) SPATE_LOG("client", debug, "no handles were reserved error={}", reply.error());
    co_return;
  }
  const QueueMemory::Owner owner{epoch.client, epoch.epoch};
  if (log_.owner() != owner) co_return;
  // The session's numbers go on from its earlier epochs. Later replies may be older than what was sent meanwhile.
  if (!log_.knows_numbers()) {
    log_.begin(owner, reply->next - 1);
    done_ = reply->next - 1;
  }
  log_.add_handles({reply->first.value, reply->count});
}

void QueuedChanges::end_queueing() {
  log_.end();
  held_.refuse();
}

void QueuedChanges::lose_all(const Error& why) {
  if (!log_.any()) return;
  const std::vector<QueueMemory::Record> records = log_.take_all();
  done_ = records.back().number;
  ++lives_;
  for (const QueueMemory::Record& record : records) note_failure(record, why);
  answered_.set();
  if (data_ != nullptr) data_->send_closed();
}

void QueuedChanges::request_stop() {
  stopping_.request_stop();
  urged_.set();
  answered_.set();
}

job::Task<void> QueuedChanges::stop() {
  if (data_ != nullptr) co_await data_->stop();
  co_await gate_.close();
}

}  // namespace spate::client
