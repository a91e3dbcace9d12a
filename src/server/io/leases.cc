// SPDX-License-Identifier: Apache-2.0
#include "server/io/leases.h"

#include <algorithm>

#include "log/fields.h"
#include "log/log.h"
#include "server/io/target.h"

namespace spate::io {
namespace {

/// Pause between two checks whether a holder's operations have ended. Most end within the first pause.
constexpr Duration kFirstPoll = std::chrono::microseconds(50);
constexpr Duration kLongestPoll = std::chrono::milliseconds(5);

/// The time of the last write, as the lease holder reports it.
WallTime write_time(const BypassLease& lease, WallTime now) {
  return WallTime{std::clamp<std::int64_t>(lease.words().last_write_ns.load(std::memory_order_relaxed), 0, now.ns)};
}

}  // namespace

Leases::Leases(LeasesParts parts, metrics::Registry& metrics)
    : parts_(parts),
      next_id_(static_cast<std::uint64_t>(parts.executor.clock().wall().ns) | 1U),
      held_(metrics, "spate_server_io_leases"),
      granted_(metrics, "spate_server_io_leases_granted_total"),
      recalled_(metrics, "spate_server_io_leases_recalled_total"),
      fenced_(metrics, "spate_server_io_leases_fenced_total") {}

MonoTime Leases::deadline() const { return parts_.executor.clock().now() + parts_.options.recall_deadline; }
bool Leases::full() const { return by_id_.size() >= parts_.options.max_leases; }

std::uint64_t Leases::add(BypassLease lease) {
  lease.id = next_id_++;
  auto owned = std::make_unique<BypassLease>(std::move(lease));
  by_key_.emplace(owned->key, owned.get());
  const std::uint64_t id = owned->id;
  by_id_.emplace(id, std::move(owned));
  held_.set(static_cast<std::int64_t>(by_id_.size()));
  granted_.add();
  return id;
}

BypassLease* Leases::find(std::uint64_t id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second.get();
}

BypassLease* Leases::find(std::uint64_t id, ClientId client) {
  BypassLease* const lease = find(id);
  return lease != nullptr && lease->client == client ? lease : nullptr;
}

void Leases::erase(std::uint64_t id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  const auto [begin, end] = by_key_.equal_range(found->second->key);
  for (auto it = begin; it != end; ++it) {
    if (it->second != found->second.get()) continue;
    by_key_.erase(it);
    break;
  }
  by_id_.erase(found);
  held_.set(static_cast<std::int64_t>(by_id_.size()));
}

bool Leases::has_writer(const DatafileKey& key) const { return !by_key_.empty() && has_other_writer(key, ClientId()); }

bool Leases::has_other_writer(const DatafileKey& key, ClientId client) const {
  return !by_key_.empty() && !writers_in_the_way(key, client).empty();
}

std::vector<std::uint64_t> Leases::writers_in_the_way(const DatafileKey& key, ClientId who) const {
  std::vector<std::uint64_t> ids;
  const auto [begin, end] = by_key_.equal_range(key);
  for (auto it = begin; it != end; ++it) {
    if (it->second->writable() && (!who || it->second->client != who)) ids.push_back(it->second->id);
  }
  return ids;
}

job::Task<Result<DatafileLock::Hold>> Leases::lock(DatafileTable::Entry& entry, DatafileLock::Mode mode, ClientId who,
                                                   job::StopToken stop) {
  for (;;) {
    // The holder's own cached writes through the server need no recall. Its direct writes do, since the holder writes
    // through the page cache.
    const ClientId friendly = mode == DatafileLock::Mode::kShared ? who : ClientId();
    for (const std::uint64_t id : writers_in_the_way(entry.key, friendly)) {
      if (mode == DatafileLock::Mode::kShared)
        entry.no_writer_until = parts_.executor.clock().now() + parts_.options.contended_for;
      SPATE_CO_TRY(std::ignore, co_await recall(id, deadline(), stop));
    }
    SPATE_CO_TRY(DatafileLock::Hold hold, co_await entry.lock.take(mode, stop));
    // A lease may have been granted before the lock was taken. While the lock is held, none is granted that it
    // excludes.
    if (by_key_.empty() || writers_in_the_way(entry.key, friendly).empty()) co_return std::move(hold);
  }
}

void Leases::mark_recalled(BypassLease& lease) {
  std::uint32_t granted = LeaseWords::kGranted;
  if (lease.words().state.compare_exchange_strong(granted, LeaseWords::kRecalled)) recalled_.add();
}

job::Task<Result<void>> Leases::recall(std::uint64_t id, MonoTime deadline, job::StopToken stop) {
  Duration pause = kFirstPoll;
  for (;;) {
    BypassLease* const lease = find(id);  // may have changed
    if (lease == nullptr) co_return Result<void>();
    mark_recalled(*lease);
    if (!lease->writable() || lease->words().busy.load(std::memory_order_seq_cst) == 0) break;
    const bool waited = parts_.executor.clock().now() >= deadline;
    if (waited || lease->words().state.load(std::memory_order_seq_cst) == LeaseWords::kFenced) {
      const DatafileKey key = lease->key;
      auto fenced = co_await fence(*lease->target, key, stop);
      co_return fenced;
    }
    SPATE_CO_TRY(std::ignore, co_await parts_.executor.sleep(pause, stop));
    pause = std::min(2 * pause, kLongestPoll);
  }
  auto finished = co_await finish(id, stop);
  co_return finished;
}

job::Task<Result<void>> Leases::finish(std::uint64_t id, job::StopToken stop) {
  BypassLease* const lease = find(id);
  if (lease == nullptr) co_return Result<void>();
  const DatafileKey key = lease->key;
  mark_recalled(*lease);
  SPATE_CO_TRY(std::ignore, co_await note(key, stop));
  erase(id);
  co_return Result<void>();
}

job::Task<Result<void>> Leases::note(const DatafileKey& key, job::StopToken stop) {
  if (by_key_.empty()) co_return Result<void>();
  for (const std::uint64_t id : writers_in_the_way(key, ClientId())) {
    BypassLease* lease = find(id);  // may have changed
    if (lease == nullptr) continue;
    const std::uint64_t writes = lease->words().writes.load(std::memory_order_seq_cst);
    // An operation under way may have changed something already.
    if (writes == lease->noted_writes && lease->words().busy.load(std::memory_order_seq_cst) == 0) continue;
    trove::BytestreamRequest request;
    request.op = trove::BytestreamOp::kNoteChange;
    request.id = key.id;
    request.now = write_time(*lease, now());
    SPATE_CO_TRY(std::ignore, co_await run_op(*lease->target, ClientId(), request, stop));
    lease = find(id);
    if (lease != nullptr) lease->noted_writes = writes;
  }
  co_return Result<void>();
}

job::Task<Result<void>> Leases::fence(Target& target, const DatafileKey& key, job::StopToken stop) {
  const DatafileTable::Use datafile = parts_.datafiles.use(key);
  SPATE_CO_TRY(const DatafileLock::Hold hold, co_await datafile->lock.exclusive(stop));
  std::vector<std::uint64_t> all;
  bool silent = false;
  const auto [begin, end] = by_key_.equal_range(key);
  for (auto it = begin; it != end; ++it) {
    BypassLease& lease = *it->second;
    all.push_back(lease.id);
    mark_recalled(lease);
    if (!lease.writable() || lease.words().busy.load(std::memory_order_seq_cst) == 0) continue;
    lease.words().state.store(LeaseWords::kFenced, std::memory_order_seq_cst);
    silent = true;
    fenced_.add();
    SPATE_LOG(
        "server", warn,
        "lease fenced, its holder is silent: the datafile moves to a new file client={} target={} handle={} slot={}",
        lease.client, key.target, key.id.handle, key.id.slot);
  }
  if (silent) {
    trove::BytestreamRequest request;
    request.op = trove::BytestreamOp::kReplace;
    request.id = key.id;
    SPATE_CO_TRY(std::ignore, co_await run_op(target, ClientId(), request, stop));
    parts_.datafiles.close(*datafile);
  }
  for (const std::uint64_t id : all) {
    SPATE_CO_TRY(std::ignore, co_await finish(id, stop));
  }
  co_return Result<void>();
}

job::Task<Result<void>> Leases::end_client(ClientId client, std::uint32_t lowest_epoch, job::StopToken stop) {
  std::vector<std::uint64_t> ids;
  for (const auto& [id, lease] : by_id_) {
    if (lease->client != client || lease->epoch >= lowest_epoch) continue;
    mark_recalled(*lease);
    ids.push_back(id);
  }
  auto ended = co_await recall_all(std::move(ids), stop);
  co_return ended;
}

/// Yields the first failure.
job::Task<Result<void>> Leases::recall_all(std::vector<std::uint64_t> ids, job::StopToken stop) {
  const MonoTime until = deadline();
  Result<void> failure;
  for (const std::uint64_t id : ids) {
    auto ended = co_await recall(id, until, stop);
    if (!ended && failure) failure = std::move(ended);
    if (stop.stopped()) break;
  }
  co_return failure;
}

job::Task<Result<void>> Leases::end_expired(job::StopToken stop) {
  std::vector<std::uint64_t> ids;
  const WallTime at = now();
  for (const auto& [id, lease] : by_id_) {
    if (lease->expiry <= at) ids.push_back(id);
  }
  auto ended = co_await recall_all(std::move(ids), stop);
  co_return ended;
}

job::Task<Result<void>> Leases::end_left_over(job::StopToken stop) {
  std::vector<std::uint64_t> ids;
  for (Target& target : parts_.targets) {
    SPATE_CO_TRY(auto pages, target.device.storage().store().left_leases());
    for (auto& page : pages) {
      BypassLease lease;
      lease.client = ClientId(page->words().client);
      lease.epoch = page->words().epoch;
      lease.key = {target.description.id, page->datafile()};
      lease.target = &target;
      lease.page = std::move(page);
      lease.noted_writes = ~std::uint64_t{0};  // unknown: the next note() compares again
      ids.push_back(add(std::move(lease)));
      mark_recalled(*find(ids.back()));
    }
  }
  const auto ended = co_await recall_all(std::move(ids), stop);
  if (stop.stopped()) co_return ended;
  if (!ended) {
    SPATE_LOG("server", error, "leases of an earlier process cannot be ended, their datafiles stay blocked error={}",
              ended.error());
  }
  co_return Result<void>();
}

void Leases::abandon(const DatafileKey& key) {
  const auto [begin, end] = by_key_.equal_range(key);
  std::vector<std::uint64_t> ids;
  for (auto it = begin; it != end; ++it) {
    ids.push_back(it->second->id);
    mark_recalled(*it->second);
    it->second->words().state.store(LeaseWords::kFenced, std::memory_order_seq_cst);
  }
  for (const std::uint64_t id : ids) erase(id);
}

job::Task<void> Leases::stop() {
  for (const auto& [id, lease] : by_id_) mark_recalled(*lease);
  const MonoTime until = deadline();
  while (!by_id_.empty()) {
    const std::uint64_t id = by_id_.begin()->first;
    const BypassLease& lease = *by_id_.begin()->second;
    const bool busy = lease.writable() && lease.words().busy.load(std::memory_order_seq_cst) > 0;
    if (busy && parts_.executor.clock().now() < until) {
      std::ignore = co_await parts_.executor.sleep(kLongestPoll);
      continue;
    }
    std::ignore = co_await note(lease.key, {});
    const auto left = by_id_.find(id);
    if (left == by_id_.end()) continue;
    if (busy) left->second->page->keep();
    erase(id);
  }
}

}  // namespace spate::io
