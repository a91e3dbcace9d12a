// SPDX-License-Identifier: Apache-2.0
#include "server/meta/locks/lock_keeper.h"

#include <algorithm>

#include "log/log.h"
#include "server/meta/session/open_session.h"

namespace spate::meta {
namespace {

constexpr std::size_t kHoldersAtOnce = 1000;

/// In one transaction with what another epoch of the session may write. The session's end takes the note away, and none
/// may come after it.
job::Task<Result<void>> put_holder(Operation& operation, ClientId client, std::uint32_t epoch) {
  const StoreKey key = lock_holder_key(client);
  SPATE_CO_TRY(std::ignore, co_await check_open(operation, client, epoch));
  SPATE_CO_TRY(const auto found, co_await operation.get<CounterRecord>(key));
  if (!found || found->next < epoch) operation.put(key, CounterRecord{epoch});
  co_return {};
}

job::Task<Result<void>> erase_holder(Operation& operation, ClientId client, std::uint32_t below_epoch) {
  const StoreKey key = lock_holder_key(client);
  const auto found = co_await operation.get<CounterRecord>(key);
  if (!found && found.code() != Errc::kCorrupt) co_return found.error();
  if (!found || (*found && (*found)->next < below_epoch)) operation.erase(key);
  co_return {};
}

}  // namespace

LockKeeper::LockKeeper(MetaCore& core, LockLimits limits) : core_(core), table_(limits) {}

job::Task<Result<void>> LockKeeper::start() {
  do {
    number_ = core_.random().next();
  } while (number_ == 0);
  forfeit_ = core_.executor().now() + core_.options().session_lease * 2;
  job::Transaction transaction = core_.store().begin();
  trove::KeyRange range = lock_holders();
  range.limit = kHoldersAtOnce;
  range.mode = trove::ReadMode::kSnapshot;
  for (bool more = true; more;) {
    const auto read = co_await transaction.range(range);
    if (read.status != Errc::kOk) co_return Error(read.status, "lock holders in the meta store");
    for (const trove::KeyValue& entry : read.entries) {
      const auto client = parse_lock_holder_key(entry.key);
      if (!client) co_return Error(Errc::kCorrupt, "key of a lock holder in the meta store");
      const auto record = decode_record<CounterRecord>(entry.value);
      if (!record) SPATE_LOG("server/meta", error, "note of a lock holder cannot be read client={}", client->value);
      pending_.emplace(*client, record ? static_cast<std::uint32_t>(record->next) : 0U);
    }
    more = read.more;
    if (!more) break;
    range.begin = read.entries.back().key;
    range.begin.push_back(std::byte{0});
  }
  if (!pending_.empty()) SPATE_LOG("server/meta", info, "locks are to be claimed again sessions={}", pending_.size());
  co_return {};
}

/// Who is there and does not claim its locks has none any more; who is silent must be fenced first (release()).
bool LockKeeper::in_grace() {
  if (!pending_.empty() && core_.executor().now() >= forfeit_) {
    std::erase_if(pending_, [this](const auto& holder) { return !core_.parts().sessions->is_ending(holder.first); });
  }
  return !pending_.empty();
}

job::Task<Result<void>> LockKeeper::record(ClientId client, std::uint32_t epoch, job::StopToken stop) {
  Errand errand = [client, epoch](Operation& operation) { return put_holder(operation, client, epoch); };
  // A machine that crashes must know afterwards that there are locks to wait for.
  auto done = co_await core_.run_errand(std::move(errand), trove::Durability::kMachine, stop);
  co_return done;
}

job::Task<Result<void>> LockKeeper::release(ClientId client, std::uint32_t below_epoch, job::StopToken stop) {
  const auto found = sessions_.find(client);
  if (found != sessions_.end() && found->second->epoch < below_epoch) {
    found->second->over = true;
    found->second->wake();
    sessions_.erase(found);
  }
  table_.release_client(client, below_epoch);
  const auto pending = pending_.find(client);
  if (pending != pending_.end() && pending->second < below_epoch) pending_.erase(pending);
  reclaimed_.erase(client);
  tell_news();
  Errand errand = [client, below_epoch](Operation& operation) { return erase_holder(operation, client, below_epoch); };
  auto done = co_await core_.run_errand(std::move(errand), trove::Durability::kProcess, stop);
  co_return done;
}

std::vector<ClientId> LockKeeper::noted() const {
  std::vector<ClientId> clients;
  for (const auto& [client, epoch] : pending_) clients.push_back(client);
  return clients;
}

LockKeeper::SessionPtr LockKeeper::session_of(const rpc::Call& call) {
  SessionPtr& session = sessions_[call.header.client];
  if (session == nullptr || session->epoch < call.header.session_epoch) {
    if (session != nullptr) {
      session->over = true;
      session->wake();
    }
    session = std::make_shared<Session>(call.header.session_epoch, core_.executor());
  }
  return session;
}

bool LockKeeper::listens(const rpc::Call& call) {
  const SessionPtr session = session_of(call);
  return session->epoch == call.header.session_epoch && !session->over;
}

/// The event's number; 0 when nobody is there to be told.
std::uint64_t LockKeeper::tell(ClientId client, std::uint32_t epoch, wire::LockEventType type, std::uint64_t subject) {
  const auto found = sessions_.find(client);
  if (found == sessions_.end() || found->second->epoch != epoch) return 0;
  Session& session = *found->second;
  session.events.push_back({++session.last_event, type, subject});
  session.wake();
  return session.last_event;
}

void LockKeeper::tell_news() {
  for (const LockTable::Ended& ended : table_.take_ended()) {
    const auto type = ended.granted ? wire::LockEventType::kGranted : wire::LockEventType::kRefused;
    tell(ended.wait.client, ended.wait.epoch, type, ended.wait.number);
  }
  for (const LockTable::Recall& recall : table_.take_recalls()) {
    tell(recall.owner.client, recall.owner.epoch, wire::LockEventType::kRecalled, recall.handle.value);
  }
}

}  // namespace spate::meta
