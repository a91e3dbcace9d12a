// SPDX-License-Identifier: Apache-2.0
#include "client/queued_changes.h"

#include <algorithm>
#include <utility>

#include "client/session/session.h"
#include "job/deadline.h"
#include "log/fields.h"
#include "log/log.h"

namespace spate::client {
namespace {

/// With fewer, more are asked for.
constexpr std::uint64_t kFewHandles = wire::kMostReserved;

}  // namespace

QueuedChanges::QueuedChanges(Session& session, AttributeCache& attributes, QueueMemory* memory)
    : session_(session),
      memory_(memory),
      local_(attributes, *this),
      urged_(session.executor()),
      answered_(session.executor()),
      gate_(session.executor()) {
  if (memory_ == nullptr) return;
  size_ = memory_->size();
  done_ = memory_->last() - memory_->size();
  for (const QueueMemory::Record& record : memory_->after(0, ~std::size_t{0}, ~std::size_t{0})) {
    last_changes_[record.object] = record.number;
    last_time_ = std::max(last_time_, record.at);
  }
}

// Answers, by any thread.

std::optional<Result<Attributes>> QueuedChanges::make(const NewObject& made, std::uint64_t request_id) {
  if (memory_ == nullptr) return std::nullopt;
  return local_.make(made, request_id);
}

std::optional<Result<Attributes>> QueuedChanges::set(wire::SetattrRequest request, std::uint64_t request_id) {
  if (memory_ == nullptr) return std::nullopt;
  return local_.set(std::move(request), request_id);
}

bool QueuedChanges::close(Handle file, Rights rights, std::uint64_t request_id) {
  if (memory_ == nullptr) return false;
  wire::CloseRequest request;
  request.handle = file;
  request.rights = rights;
  if (allows(rights, Rights::kWrite)) request.data = wire::DataSummary();
  return local_.close(request, request_id);
}

std::optional<QueueMemory::Call> QueuedChanges::inherited_call(std::uint64_t request_id) const {
  if (memory_ == nullptr) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return memory_->inherited_call(request_id);
}

void QueuedChanges::call_answered(std::uint64_t request_id) {
  if (memory_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  memory_->call_answered(request_id);
}

bool QueuedChanges::has(Handle object) const {
  if (!any()) return false;
  const std::lock_guard lock(mutex_);
  return last_changes_.contains(object);
}

QueuedChanges::Counters QueuedChanges::counters() const {
  if (memory_ == nullptr) return {};
  const std::lock_guard lock(mutex_);
  return {queued_, batches_.load(), size_.load(), memory_->losses()};
}

// LocalChanges. The cache's lock is held.

WallTime QueuedChanges::time(WallTime least) {
  const std::lock_guard lock(mutex_);
  const WallTime now{session_.executor().clock().now().since_start.count() + clock_offset_ns_};
  return last_time_ = std::max({now, least, last_time_});
}

Handle QueuedChanges::take_handle() {
  const std::lock_guard lock(mutex_);
  return ended_ ? Handle() : memory_->take_handle();
}

bool QueuedChanges::add(Change change) {
  bool call = false;
  {
    const std::lock_guard lock(mutex_);
    if (ended_ || !knows_numbers()) return false;
    QueueMemory::Record record;
    record.op = change.op;
    record.object = change.object;
    record.makes = change.makes;
    record.at = change.at;
    record.request_id = change.request_id;
    record.body = std::move(change.body);
    const std::uint64_t number = memory_->append(record);
    if (number == 0) return false;
    last_changes_[change.object] = number;
    if (change.directory) last_changes_[change.directory] = number;
    if (!oldest_) oldest_ = session_.executor().clock().now();
    const std::uint64_t size = ++size_;
    ++queued_;
    // The executor sleeps until a batch is due, except when the first change comes.
    const bool few_handles = change.makes && memory_->handles_left() == kFewHandles - 1;
    call = !std::exchange(called_, true) || size == kFull || few_handles;
  }
  if (call) session_.executor().post([this] { wake(); });
  return true;
}

bool QueuedChanges::changed_after(Handle object, std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = last_changes_.find(object);
  return found != last_changes_.end() && found->second > number;
}

const Credential& QueuedChanges::credential() const { return session_.options().credential; }

// Waits.

job::Task<Result<void>> QueuedChanges::send_all(Limits limits) {
  if (!any()) co_return Result<void>();
  std::uint64_t last = 0;
  {
    const std::lock_guard lock(mutex_);
    last = memory_->last();
  }
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
  if (has(file)) {
    SPATE_CO_TRY(std::ignore, co_await send_all(limits));
  }
  if (const auto failure = take_failure(file)) co_return *failure;
  const auto found = answers_.find(file);
  if (found == answers_.end()) co_return Error(Errc::kNotFound, "the answer to its creation is not kept");
  wire::CreateReply reply = std::move(found->second);
  answers_.erase(found);
  co_return reply;
}

// The session.

void QueuedChanges::session_changed() {
  if (memory_ == nullptr) return;
  const rpc::SessionEpoch session = session_.identity().session();
  heard();
  const QueueMemory::Owner owner{session.client, session.epoch};
  {
    const std::lock_guard lock(mutex_);
    if (memory_->owner() == owner) return;
  }
  lose_all(Error(Errc::kSessionFenced, "the session has ended"));
  answers_.clear();
  const std::lock_guard lock(mutex_);
  memory_->begin(owner);
  done_ = 0;
}

void QueuedChanges::heard() {
  const WallTime now = session_.fs_time();
  const std::lock_guard lock(mutex_);
  clock_offset_ns_ = now.ns - session_.executor().now().since_start.count();
}

void QueuedChanges::delegated(Handle directory) {
  directory_ = directory;
  want_handles();
}

void QueuedChanges::want_handles() {
  if (memory_ == nullptr || reserving_ || !directory_ || stopping_.stopped()) return;
  {
    const std::lock_guard lock(mutex_);
    if (ended_ || memory_->handles_left() >= kFewHandles) return;
  }
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
  const std::lock_guard lock(mutex_);
  const QueueMemory::Owner owner{epoch.client, epoch.epoch};
  if (memory_->owner() != owner) co_return;
  // The session's numbers go on from its earlier epochs. Later replies may be older than what was sent meanwhile.
  if (!knows_numbers()) {
    memory_->begin(owner, reply->next - 1);
    done_ = reply->next - 1;
  }
  std::ignore = memory_->add_range({reply->first.value, reply->count});
}

/// Whether handles were reserved in this epoch. The answer to that tells with which number its changes begin.
bool QueuedChanges::knows_numbers() const { return memory_->last() > 0 || memory_->handles_left() > 0; }

void QueuedChanges::end_queueing() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
}

void QueuedChanges::lose_all(const Error& why) {
  if (memory_ == nullptr || !any()) return;
  std::vector<QueueMemory::Record> records;
  {
    const std::lock_guard lock(mutex_);
    records = memory_->after(0, ~std::size_t{0}, ~std::size_t{0});
    done_ = memory_->last();
    memory_->drop_until(done_);
    size_ = 0;
    last_changes_.clear();
    ++lives_;
  }
  for (const QueueMemory::Record& record : records) note_failure(record, why);
  answered_.set();
}

void QueuedChanges::request_stop() {
  stopping_.request_stop();
  urged_.set();
  answered_.set();
}

job::Task<void> QueuedChanges::stop() { co_await gate_.close(); }

}  // namespace spate::client
