// SPDX-License-Identifier: Apache-2.0
#include "coord/sim/sim_coordinator.h"

#include <algorithm>

namespace spate::coord {
namespace {

/// How long a caller waits for a server that does not answer.
constexpr Duration kTimeout = std::chrono::seconds(1);
constexpr Duration kLatest = std::chrono::seconds(4);

}  // namespace

Duration SimService::draw(Duration most) {
  return Duration(static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(most.count()) + 1)));
}

void SimService::make_what_is_due() {
  while (!late_.empty() && late_.begin()->first <= clock_.now()) {
    const Change change = std::move(late_.begin()->second);
    late_.erase(late_.begin());
    if (!fits(change)) continue;
    std::ignore = make(change);
  }
}

bool SimService::fits(const Change& change) const {
  return std::all_of(change.compares.begin(), change.compares.end(), [this](const Change::Compare& compare) {
    const auto found = records_.find(compare.key);
    return (found == records_.end() ? 0 : found->second.revision) == compare.revision;
  });
}

Snapshot SimService::read(const std::string& prefix) {
  make_what_is_due();
  Snapshot out;
  out.revision = revision_;
  for (auto at = records_.lower_bound(prefix); at != records_.end() && at->first.starts_with(prefix); ++at) {
    out.records.push_back({at->first, at->second.value, at->second.revision});
  }
  return out;
}

Result<std::uint64_t> SimService::make(const Change& change) {
  make_what_is_due();
  if (!fits(change)) return Errc::kConflict;
  ++revision_;
  for (const Change::Put& put : change.puts) records_[put.key] = {put.value, revision_};
  for (const std::string& key : change.erases) records_.erase(key);
  return revision_;
}

void SimService::restore(const Snapshot& old) {
  late_.clear();
  records_.clear();
  revision_ = std::max<std::uint64_t>(old.revision, 1);
  for (const Record& record : old.records) records_[record.key] = {record.value, record.revision};
}

void SimService::make_later(Change change, Duration after) { late_.emplace(clock_.now() + after, std::move(change)); }

job::Task<Result<void>> SimCoordinator::travel(job::StopToken stop) {
  SPATE_CO_TRY(std::ignore, co_await executor_.sleep(service_.draw(service_.faults.latency), stop));
  if (service_.reached_by(process_)) co_return Result<void>();
  SPATE_CO_TRY(std::ignore, co_await executor_.sleep(kTimeout, stop));
  co_return Error(Errc::kUnreachable, "the coordinator");
}

job::Task<Result<Snapshot>> SimCoordinator::read(std::string prefix, job::StopToken stop) {
  SPATE_CO_TRY(std::ignore, co_await travel(stop));
  Snapshot seen = service_.read(prefix);
  SPATE_CO_TRY(std::ignore, co_await travel(stop));
  co_return seen;
}

job::Task<Result<std::uint64_t>> SimCoordinator::change(Change change, job::StopToken stop) {
  SPATE_CHECK(change.puts.size() + change.erases.size() <= kMaxChangeKeys);
  SPATE_CO_TRY(std::ignore, co_await travel(stop));
  if (service_.strikes(service_.faults.late_change_per_mille)) {
    service_.make_later(std::move(change), kTimeout + service_.draw(kLatest));
    std::ignore = co_await executor_.sleep(kTimeout, stop);
    co_return Error(Errc::kTimeout, "the coordinator");
  }
  const auto made = service_.make(change);
  if (service_.strikes(service_.faults.lost_answer_per_mille)) {
    std::ignore = co_await executor_.sleep(kTimeout, stop);
    co_return Error(Errc::kTimeout, "the coordinator");
  }
  const auto back = co_await travel(stop);
  if (!back) co_return Error(Errc::kTimeout, "the coordinator");  // the change may have been made
  co_return made;
}

}  // namespace spate::coord
