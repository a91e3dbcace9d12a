// SPDX-License-Identifier: Apache-2.0
#include "server/meta/session/recovery_markers.h"

#include "job/range_read.h"
#include "log/log.h"
#include "server/meta/session/opens.h"

namespace spate::meta {
namespace {

constexpr std::size_t kNotesAtOnce = 1000;

}  // namespace

Result<void> RecoveryMarkers::take(const trove::KeyValue& entry) {
  const auto client = kind_.parse(entry.key);
  if (!client) return Error(Errc::kCorrupt, std::string("key of a ") + kind_.name + " holder in the meta store");
  const auto record = decode_record<CounterRecord>(entry.value);
  if (!record) {
    SPATE_LOG("server/meta", error, "note of a {} holder cannot be read client={}", kind_.name, client->value);
  }
  pending_.emplace(*client, record ? static_cast<std::uint32_t>(record->next) : 0U);
  return {};
}

job::Task<Result<void>> RecoveryMarkers::load() {
  job::Transaction transaction = core_.store().begin();
  trove::KeyRange range = kind_.all();
  range.limit = kNotesAtOnce;
  range.mode = trove::ReadMode::kSnapshot;
  const std::string what = std::string(kind_.name) + " holders in the meta store";
  const auto take_entry = [this](const trove::KeyValue& entry) { return take(entry); };
  auto done = co_await job::read_range(transaction, std::move(range), what, take_entry);
  co_return done;
}

/// Uses one transaction, so that it conflicts with another epoch of the session. The session's end erases the marker.
job::Task<Result<void>> RecoveryMarkers::put(Operation& operation, ClientId client, std::uint32_t epoch) {
  const StoreKey key = kind_.key(client);
  SPATE_CO_TRY(std::ignore, co_await check_open(operation, client, epoch));
  const auto found = co_await operation.get<CounterRecord>(key);
  if (!found && found.code() != Errc::kCorrupt) co_return found.error();
  if (!found || !*found || (*found)->next < epoch) operation.put(key, CounterRecord{epoch});
  co_return {};
}

job::Task<Result<void>> RecoveryMarkers::erase(Operation& operation, ClientId client, std::uint32_t below_epoch) {
  const StoreKey key = kind_.key(client);
  const auto found = co_await operation.get<CounterRecord>(key);
  if (!found && found.code() != Errc::kCorrupt) co_return found.error();
  if (!found || (*found && (*found)->next < below_epoch)) operation.erase(key);
  co_return {};
}

job::Task<Result<void>> RecoveryMarkers::record(ClientId client, std::uint32_t epoch, job::StopToken stop) {
  InternalChange change = [this, client, epoch](Operation& operation) { return put(operation, client, epoch); };
  // After a crash of the machine, a restarted server learns from the markers which sessions to wait for.
  auto done = co_await core_.run_internal(std::move(change), trove::Durability::kMachine, stop);
  co_return done;
}

void RecoveryMarkers::forget(ClientId client, std::uint32_t below_epoch) {
  const auto pending = pending_.find(client);
  if (pending != pending_.end() && pending->second < below_epoch) pending_.erase(pending);
}

job::Task<Result<void>> RecoveryMarkers::remove(ClientId client, std::uint32_t below_epoch, job::StopToken stop) {
  InternalChange change = [this, client, below_epoch](Operation& operation) {
    return erase(operation, client, below_epoch);
  };
  auto done = co_await core_.run_internal(std::move(change), trove::Durability::kProcess, stop);
  co_return done;
}

std::vector<ClientId> RecoveryMarkers::pending_clients() const {
  std::vector<ClientId> clients;
  for (const auto& [client, epoch] : pending_) clients.push_back(client);
  return clients;
}

}  // namespace spate::meta
