// SPDX-License-Identifier: Apache-2.0
#include "server/meta/core/core.h"

#include <algorithm>
#include <utility>

#include "log/log.h"
#include "model/defect.h"
#include "rpc/permits.h"
#include "server/meta/core/answers.h"
#include "server/meta/core/open_store.h"
#include "server/meta/store/keys.h"

namespace spate::meta {
namespace {

/// How often an operation runs before it gives up. The directories' locks ensure that bad luck alone never reaches
/// this.
constexpr unsigned kMaxRuns = 1000;
/// After a few conflicts it is enough to yield. After more, an operation also waits a little, so that the winner can
/// finish.
constexpr unsigned kRunsBeforeWaiting = 4;
constexpr Duration kLongestWait = std::chrono::milliseconds(2);

/// Fingerprints of names: 2 MiB, the names of some 300,000 new files.
constexpr std::size_t kFilteredNames = std::size_t{512} << 10U;

/// Whether the error depends on the name space; the others are transient.
bool is_answer(Errc code) {
  switch (code) {
    case Errc::kUnknown:
    case Errc::kCancelled:
    case Errc::kTimeout:
    case Errc::kBusy:
    case Errc::kTryAgain:
    case Errc::kNoMemory:
    case Errc::kNoSpace:
    case Errc::kIoError:
    case Errc::kCorrupt:
    case Errc::kFormatTooNew:
    case Errc::kConflict:
    case Errc::kUnreachable:
    case Errc::kConnectionLost:
    case Errc::kProtocol:
    case Errc::kSessionUnknown:
    case Errc::kSessionFenced:
    case Errc::kForgottenRequest: return false;
    default: return true;
  }
}

/// The bytes before the reply to a change. For an answer from the store it is unknown what the change touched.
Bytes with_touched(const rpc::Call& call, const wire::Touched& touched, const wire::Granted& granted,
                   const Bytes& reply) {
  Bytes out;
  wire::encode_body(touched, out);
  if ((call.peer->features & wire::kFeatureGrants) != 0) {
    Bytes grants;
    wire::encode_body(granted, grants);
    if (out.size() + grants.size() + reply.size() + kReplyHeaderRoom > call.header.reply_room) {
      grants.clear();
      // The leases stay granted: a lease that its client does not know of does no harm.
      wire::encode_body(wire::Granted(), grants);
    }
    out.insert(out.end(), grants.begin(), grants.end());
  }
  out.insert(out.end(), reply.begin(), reply.end());
  return out;
}

/// Whether what the run changes is still inside of the key's directory. Directories above may have been moved while
/// recall() waited for clients, which take as long as they like.
job::Task<Result<bool>> is_still_inside(job::KeyvalContext& store, Operation& operation) {
  if (operation.confinement() == nullptr) co_return true;
  job::Transaction now(store.begin());
  auto holds = co_await operation.confinement()->still_holds(now);
  co_return holds;
}

bool has_slot(const rpc::Call& call) { return call.header.id.slot != wire::RequestId::kNoSlot; }

}  // namespace

MetaCore::MetaCore(MetaOptions options, job::KeyvalContext& store, Random& random, metrics::Registry& metrics)
    : options_(std::move(options)),
      store_(store),
      random_(random),
      locks_(store.executor()),
      name_filter_(kFilteredNames),
      handles_({"next_handle", kRootHandle.value + 1}, store),
      membership_(options_, store, parts_),
      data_groups_(store, parts_),
      group_servers_(store.executor()),
      revoked_keys_(store),
      queues_(store.executor()),
      used_numbers_(store.executor(), parts_),
      next_base_(random.below(std::max<std::size_t>(membership_.targets().size(), 1))),
      objects_(store),
      gate_(store.executor()),
      unsynced_(store.executor()),
      sync_ended_(store.executor()),
      conflicts_(metrics, "spate_server_meta_conflicts_total"),
      resent_(metrics, "spate_server_meta_resent_total") {}

job::Task<Result<void>> MetaCore::start() {
  SPATE_CO_TRY(name_hash_, co_await open_store(store_, options_, random_));
  SPATE_CO_TRY(std::ignore, co_await membership_.start());
  SPATE_CO_TRY(std::ignore, co_await data_groups_.start());
  for (const auto& [id, group] : data_groups_.all()) {
    for (const GroupMember& member : group.members) group_servers_.note(server_of(member.target), true);
  }
  SPATE_CO_TRY(std::ignore, co_await revoked_keys_.start());
  SPATE_CO_TRY(std::ignore, co_await handles_.start());
  SPATE_CO_TRY(std::ignore, co_await objects_.start());
  ask_used_numbers();
  if (options_.sync != Duration(0)) job::spawn(gate_, sync_now_and_then());
  co_return {};
}

job::Task<Result<void>> MetaCore::stop() {
  stopping_.request_stop();
  co_await used_numbers_.stop();
  co_await gate_.close();
  co_await handles_.stop();
  const auto written = co_await objects_.stop();
  if (!written) SPATE_LOG("server/meta", warn, "objects not written down error={}", written.error().message());
  auto synced = co_await sync();
  co_return synced;
}

job::Task<Result<void>> MetaCore::sync() {
  const std::uint64_t needed = syncs_begun_ + 1;  // a sync under way may not cover the last commit
  while (syncs_ended_ < needed) {
    if (syncing_) {
      std::ignore = co_await sync_ended_.wait();
      continue;
    }
    syncing_ = true;
    ++syncs_begun_;
    const auto done = co_await store_.sync();
    syncing_ = false;
    syncs_ended_ = syncs_begun_;
    last_sync_ = done.status;
    sync_ended_.set();
    sync_ended_.reset();
  }
  if (last_sync_ != Errc::kOk) co_return Error(last_sync_, "sync of the meta store");
  co_return {};
}

job::Task<void> MetaCore::sync_now_and_then() {
  const job::StopToken stop(stopping_);
  while (!stop.stopped()) {
    const auto woken = co_await unsynced_.wait(stop);
    if (!woken) break;
    const auto slept = co_await executor().sleep(options_.sync, stop);
    if (!slept) break;
    unsynced_.reset();
    const auto done = co_await sync();
    if (done.code() == Errc::kCancelled) break;  // another server leads the group, and makes durable what it has
    if (!done) SPATE_LOG("server/meta", error, "name-space changes are not durable error={}", done.error().message());
  }
}

// Uses a remembered answer for a short time: in this time, a device cannot write as much as is reserved for removals.
Result<void> MetaCore::check_space() {
  constexpr Duration kGood = std::chrono::milliseconds(10);
  const MonoTime now = clock().now();
  if (now < room_until_) return {};
  if (!store_.store().short_of_space()) {
    room_until_ = now + kGood;
    return {};
  }
  if (!std::exchange(told_full_, true)) {
    SPATE_LOG("server/meta", error, "the device is full, only removals are taken: remove files, or give it more");
    job::spawn(gate_, tell_room());
  }
  return Error::told(
      Errc::kNoSpace,
      "no space left on device: that of the meta server has room for removals only; remove files, or give it more");
}

job::Task<void> MetaCore::tell_room() {
  constexpr Duration kLook = std::chrono::seconds(1);
  const job::StopToken stop(stopping_);
  while (store_.store().short_of_space()) {
    const auto slept = co_await executor().sleep(kLook, stop);
    if (!slept) co_return;
  }
  told_full_ = false;
  SPATE_LOG("server/meta", info, "the device has room again");
}

job::Task<Result<Handle>> MetaCore::new_handle(job::StopToken stop, std::uint64_t count) {
  SPATE_CO_TRY(std::ignore, check_space());
  SPATE_CO_TRY(std::ignore, co_await used_numbers_.known(stop));
  SPATE_CO_TRY(const std::uint64_t number, co_await handles_.take(stop, count));
  if ((number + count - 1) >> kPlaceShift != 0)
    co_return Error::told(Errc::kNoSpace, "this metadata shard has no handle left");
  co_return Handle(std::uint64_t{options_.shard} << 48U | number);
}

/// Clients take kTimeout for a reason to ask again, and tell its sentence if their own time runs out.
Result<void> MetaCore::check_copies(rpc::Call& call) const {
  call.needs_copies = !store_.store().lacks_copies();
  if (call.needs_copies) return {};
  return Error::told(Errc::kTimeout,
                     "too few meta servers hold the name space (meta.min_copies): changes wait until another one does");
}

job::Task<Result<Bytes>> MetaCore::change(rpc::Call& call, ByteView request, Body body) {
  SPATE_CO_TRY(std::ignore, parts_.sessions->admit(call));
  if (wire::changes_names(call.header.op)) {
    SPATE_CO_TRY(std::ignore, check_copies(call));
  }
  AnswerTable::Turn turn;
  if (has_slot(call)) {
    SPATE_CO_TRY(turn, co_await parts_.answers->enter(call));
  }
  Operation operation(*this, operation_parts_, call, Operation::Kind::kChange);
  auto result = co_await run_changes(operation, request, body);
  if (result && (call.peer->features & wire::kFeatureLeases) != 0)
    co_return with_touched(call, operation.answered_touch_, operation.answered_grant_, *result);
  co_return result;
}

job::Task<Result<Bytes>> MetaCore::run_changes(Operation& operation, ByteView request, Body body) {
  const rpc::Call& call = operation.call();
  for (;;) {
    operation.begin();
    // The session may have expired since, and others may have what it held. The end of a session changes its record, so
    // of this transaction and the session's end, the second to commit sees the first.
    if (!planted(Defect::kExpiredChange)) {
      SPATE_CO_TRY(std::ignore, parts_.sessions->check(call));
      if (call.peer->kind == wire::PeerKind::kClient) operation.store().note_read(session_key(call.header.client));
    }
    if (has_slot(call)) {
      SPATE_CO_TRY(auto known, co_await parts_.answers->find(operation.store(), call));
      if (known) {
        auto answered = co_await answer_again(operation, *std::move(known));
        co_return answered;
      }
    }
    auto result = co_await body(operation, request);
    if (!operation.met().empty()) {
      SPATE_CO_TRY(std::ignore, co_await recall_met(operation));
      continue;
    }
    if (operation.confinement() != nullptr && operation.confinement()->beyond()) {
      SPATE_LOG("server/meta", error, "a change beyond its key's directory was refused op={} client={}",
                wire::op_name(call.header.op), call.header.client.value);
      result = Errc::kPermissionDenied;
    }
    if (result.code() != Errc::kConflict) {
      if (!result && !(has_slot(call) && is_answer(result.code()))) co_return result;
      if (!result) operation.begin();  // drops everything that it has put
      if (auto answer = operation.deferred().take_answer()) result = *std::move(answer);
      if (has_slot(call)) parts_.answers->remember(operation.store(), call, result, operation.deferred().truncates());
      operation.met().meet_all(operation.changes().touched().objects);
      if (!operation.met().empty()) {
        SPATE_CO_TRY(std::ignore, co_await recall_met(operation));
        continue;
      }
      SPATE_CO_TRY(std::ignore, co_await recall(operation));
      SPATE_CO_TRY(const bool inside, co_await is_still_inside(store_, operation));
      if (!inside) {  // the next run refuses it
        SPATE_CO_TRY(std::ignore, co_await before_next_run(operation));
        continue;
      }
      const auto done = co_await operation.store().commit(trove::Durability::kProcess);
      if (done.status == Errc::kOk) {
        if (has_slot(call)) parts_.answers->confirm(call);
        auto answered = co_await acknowledge(operation, std::move(result));
        co_return answered;
      }
      if (done.status != Errc::kConflict) co_return Error(done.status, "commit of the meta store");
    }
    SPATE_CO_TRY(std::ignore, co_await before_next_run(operation));
  }
}

job::Task<Result<void>> MetaCore::before_next_run(Operation& operation) {
  operation.store_.reset();
  const job::StopToken stop = operation.call().stop;
  if (auto wait = operation.deferred().take_wait()) {
    operation.locks_.release();
    const rpc::ReleasedPermit released(operation.call());
    auto waited = co_await wait();
    co_return waited;
  }
  if (!operation.wanted_locks_.empty()) {
    auto wanted = std::move(operation.wanted_locks_);
    const rpc::ReleasedPermit released(
        operation.call());  // the operation that holds the locks may itself wait for others
    auto waited = co_await operation.locks_.wait_for(std::move(wanted), stop);
    co_return waited;
  }
  conflicts_.add();
  if (++operation.conflicts_ >= kMaxRuns) co_return Error::told(Errc::kBusy, "too many changes of the same objects");
  if (stop.stopped()) co_return stop.reason();
  if (operation.conflicts_ <= kRunsBeforeWaiting) {
    co_await executor().yield();
    co_return {};
  }
  operation.locks_.release();  // no other operation should wait for a sleeping one
  const Duration most = std::min<Duration>(kLongestWait, std::chrono::microseconds(10) * operation.conflicts_);
  const auto span = Duration(static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(most.count())) + 1));
  auto slept = co_await executor().sleep(span, stop);
  co_return slept;
}

void MetaCore::committed(Operation& operation) {
  if (parts_.leases != nullptr) operation.answered_grant_ = parts_.leases->keep_changed(operation);
  operation.end_changes(true);
  operation.answered_touch_ = operation.changes().touched();
  // Others may build on the commit before it is durable: their commits become durable after it.
  operation.locks_.release();
  operation.deferred().run_actions();
  objects_.add(operation.deferred().objects_made());
  unsynced_.set();
}

/// Waits until the truncation is over. If it was given up, the stored answer has become an error.
job::Task<Result<void>> MetaCore::after_truncation(const rpc::Call& call, Handle handle) {
  {
    const rpc::ReleasedPermit released(call);
    SPATE_CO_TRY(std::ignore, co_await parts_.intent_recovery->truncated(handle, call.stop));
  }
  if (!has_slot(call)) co_return {};
  job::Transaction store = store_.begin();
  SPATE_CO_TRY(const auto answer, co_await parts_.answers->find(store, call));
  if (answer && answer->status != Errc::kOk) co_return wire::error_of(answer->status, answer->context);
  co_return {};
}

job::Task<Result<Bytes>> MetaCore::acknowledge(Operation& operation, Result<Bytes> result) {
  committed(operation);
  if (options_.sync == Duration(0)) {
    SPATE_CO_TRY(std::ignore, co_await sync());
  }
  if (result) {
    for (auto& finish : operation.deferred().finishes()) {
      SPATE_CO_TRY(std::ignore, co_await finish());
    }
  }
  if (const Handle truncated = operation.deferred().truncates()) {
    SPATE_CO_TRY(std::ignore, co_await after_truncation(operation.call(), truncated));
  }
  co_return result;
}

job::Task<Result<Bytes>> MetaCore::answer_again(Operation& operation, AnswerRecord answer) {
  resent_.add();
  // It is not stored whether the first answer had to be durable. Resends are rare, so they always sync.
  SPATE_CO_TRY(std::ignore, co_await sync());
  if (answer.truncates) {
    SPATE_CO_TRY(std::ignore, co_await after_truncation(operation.call(), answer.truncates));
  }
  if (answer.status != Errc::kOk) co_return wire::error_of(answer.status, std::move(answer.context));
  co_return std::move(answer.body);
}

job::Task<Result<void>> MetaCore::run_internal(InternalChange change, trove::Durability durability,
                                               job::StopToken stop) {
  rpc::Call call;
  call.stop = stop;
  call.peer = std::make_shared<rpc::Peer>();
  Operation operation(*this, operation_parts_, call, Operation::Kind::kChange);
  for (;;) {
    operation.begin();
    auto result = co_await change(operation);
    if (result.code() != Errc::kConflict) {
      if (!result) co_return result;
      SPATE_CO_TRY(std::ignore, co_await recall(operation));
      const auto done = co_await operation.store().commit(durability);
      if (done.status == Errc::kOk) {
        committed(operation);
        co_return Result<void>();
      }
      if (done.status != Errc::kConflict) co_return Error(done.status, "commit of the meta store");
    }
    SPATE_CO_TRY(std::ignore, co_await before_next_run(operation));
  }
}

}  // namespace spate::meta
