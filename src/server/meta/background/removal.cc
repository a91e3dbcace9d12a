// SPDX-License-Identifier: Apache-2.0
#include "server/meta/background/removal.h"

#include <algorithm>
#include <utility>

#include "job/deadline.h"
#include "job/range_read.h"
#include "log/log.h"
#include "trove/key_order.h"

namespace spate::meta {
namespace {

constexpr std::size_t kBatch = 64;  // files removed by one request to each server
constexpr std::size_t kMaxFresh = 4096;
constexpr std::size_t kCountPage = 2000;
/// If more files than this are refused, the targets are probably at fault, and are left alone for a while.
constexpr std::size_t kMaxRefused = 1024;
constexpr Duration kFirstRetry = std::chrono::milliseconds(200);
constexpr Duration kLongestRetry = std::chrono::seconds(30);
/// Capabilities expire by the io servers' clocks, which may be a little behind this server's clock.
constexpr Duration kMargin = std::chrono::minutes(10);

bool is_out_of_reach(const RemoveOutcome& outcome, TargetId target) {
  return std::find(outcome.out_of_reach.begin(), outcome.out_of_reach.end(), target) != outcome.out_of_reach.end();
}

}  // namespace

RemovalQueue::RemovalQueue(MetaCore& core, metrics::Registry& metrics)
    : core_(core),
      pending_(metrics, "spate_server_meta_removals_pending"),
      work_(core.executor()),
      gate_(core.executor()) {}

job::Task<Result<void>> RemovalQueue::start() {
  SPATE_CO_TRY(std::ignore, co_await count());
  pass_wanted_ = pending() > 0;
  if (pass_wanted_) work_.set();
  job::spawn(gate_, work());
  co_return {};
}

job::Task<void> RemovalQueue::stop() {
  stopping_.request_stop();
  co_await gate_.close();
}

job::Task<Result<void>> RemovalQueue::count() {
  job::Transaction transaction = core_.store().begin();
  trove::KeyRange range = all_of(KeyKind::kRemoval);
  range.limit = kCountPage;
  range.mode = trove::ReadMode::kSnapshot;
  const auto take = [this](const trove::KeyValue& /*entry*/) -> Result<void> {
    pending_.add(1);
    return {};
  };
  auto done = co_await job::read_range(transaction, std::move(range), "removals in the meta store", take);
  co_return done;
}

void RemovalQueue::added(Handle handle) {
  pending_.add(1);
  push(handle);
}

void RemovalQueue::hurry(Handle handle) {
  hurried_ = true;
  out_of_reach_.clear();
  refused_.erase(handle);
  push(handle);
}

void RemovalQueue::push(Handle handle) {
  if (fresh_.size() < kMaxFresh) {
    fresh_.push_back(handle);
  } else {
    pass_wanted_ = true;
  }
  work_.set();
}

job::Task<void> RemovalQueue::wait_for_work() {
  work_.reset();
  if (pass_wanted_ || in_pass_ || !fresh_.empty()) co_return;
  MonoTime wake = MonoTime::never();
  if (left_behind_) {
    // A delay may belong to a file that is gone.
    const MonoTime now = core_.executor().now();
    std::erase_if(refused_, [now](const auto& file) { return file.second.retry_at + kLongestRetry < now; });
    for (const auto& [target, delay] : out_of_reach_) wake = std::min(wake, delay.retry_at);
    for (const auto& [file, delay] : refused_) wake = std::min(wake, delay.retry_at);
    wake = std::max(wake == MonoTime::never() ? now : wake, now + kFirstRetry);
  }
  job::DeadlineScope scope(core_.executor(), wake, stopping_);
  const auto woken = co_await work_.wait(scope.token());
  if (woken.code() != Errc::kTimeout) co_return;
  left_behind_ = false;
  pass_wanted_ = true;
}

/// If few files wait, pauses a little, so that more files share one request.
job::Task<void> RemovalQueue::gather() {
  const Duration span = core_.options().gather_removals;
  if (std::exchange(hurried_, false) || in_pass_ || span == Duration(0) || fresh_.size() >= kBatch) co_return;
  std::ignore = co_await core_.executor().sleep(span, stopping_);
}

job::Task<void> RemovalQueue::work() {
  while (!stopping_.stopped()) {
    co_await wait_for_work();
    co_await gather();
    if (stopping_.stopped()) break;
    auto batch = co_await next_batch();
    Result<void> done;
    if (!batch) {
      done = std::move(batch).error();
    } else if (!batch->empty()) {
      done = co_await remove(*std::move(batch));
    }
    if (done || stopping_.stopped()) continue;
    SPATE_LOG("server/meta", error, "removals not read or not written down error={}", done.error().message());
    pass_wanted_ = true;
    std::ignore = co_await core_.executor().sleep(kLongestRetry, stopping_);
  }
}

bool RemovalQueue::in_reach(const DeadFile& file) const {
  if (out_of_reach_.empty() && refused_.empty()) return true;
  const MonoTime now = core_.executor().now();
  const auto refused = refused_.find(file.handle);
  if (refused != refused_.end() && refused->second.retry_at > now) return false;
  for (const Slot& slot : file.layout.slots) {
    for (const TargetId target : slot.targets) {
      const auto found = out_of_reach_.find(target);
      if (found != out_of_reach_.end() && found->second.retry_at > now) return false;
    }
  }
  return true;
}

job::Task<Result<std::vector<DeadFile>>> RemovalQueue::next_batch() {
  Result<std::vector<DeadFile>> files = Errc::kUnknown;
  if (!fresh_.empty()) {
    const std::size_t n = std::min(fresh_.size(), kBatch);
    std::vector<Handle> handles(fresh_.end() - static_cast<std::ptrdiff_t>(n), fresh_.end());
    fresh_.resize(fresh_.size() - n);
    files = co_await load(std::move(handles));
  } else {
    files = co_await next_page();
  }
  if (!files) co_return files;
  SPATE_CO_TRY(std::ignore, co_await keep_live_ones(*files));
  const std::size_t before = files->size();
  std::erase_if(*files, [this](const DeadFile& file) { return !in_reach(file); });
  left_behind_ = left_behind_ || files->size() < before;
  co_return files;
}

/// A file has an inode or a removal, never both. If a damaged store has both, the file must not be lost.
job::Task<Result<void>> RemovalQueue::keep_live_ones(std::vector<DeadFile>& files) {
  if (files.empty()) co_return {};
  std::vector<Bytes> keys;
  for (const DeadFile& file : files) keys.push_back(inode_key(file.handle).bytes());
  job::Transaction transaction = core_.store().begin();
  const auto read = co_await transaction.get_many(keys, trove::ReadMode::kSnapshot);
  if (read.status != Errc::kOk) co_return read.status;
  for (const trove::KeyValue& inode : read.entries) {
    const Handle handle(parse_id_key(inode.key).value_or(0));
    SPATE_LOG("server/meta", error,
              "a removal names a file that still exists; the file stays: run spate fsck handle={}", handle.value);
    std::erase_if(files, [handle](const DeadFile& file) { return file.handle == handle; });
  }
  co_return {};
}

job::Task<Result<std::vector<DeadFile>>> RemovalQueue::load(std::vector<Handle> handles) {
  std::vector<DeadFile> files;
  job::Transaction transaction = core_.store().begin();
  for (const Handle handle : handles) {
    const StoreKey key = removal_key(handle);
    const auto read = co_await transaction.get(key, trove::ReadMode::kSnapshot);
    if (read.status != Errc::kOk) co_return read.status;
    if (!read.value) continue;
    SPATE_CO_TRY(RemovalRecord record, decode_record<RemovalRecord>(*read.value));
    files.push_back({handle, std::move(record.layout)});
  }
  co_return files;
}

job::Task<Result<std::vector<DeadFile>>> RemovalQueue::next_page() {
  trove::KeyRange range = all_of(KeyKind::kRemoval);
  if (!in_pass_) {
    in_pass_ = true;
    pass_wanted_ = false;
    cursor_ = range.begin;
  }
  range.begin = cursor_;
  range.limit = kBatch;
  range.mode = trove::ReadMode::kSnapshot;
  job::Transaction transaction = core_.store().begin();
  const auto read = co_await transaction.range(range);
  if (read.status != Errc::kOk) co_return read.status;  // the pass goes on from here
  in_pass_ = false;
  std::vector<DeadFile> files;
  for (const trove::KeyValue& entry : read.entries) {
    const auto handle = parse_id_key(entry.key);
    auto record = decode_record<RemovalRecord>(entry.value);
    if (!handle || !record) {  // one bad record must not stop all others
      SPATE_LOG("server/meta", error, "a removal cannot be read, its datafiles stay");
      continue;
    }
    files.push_back({Handle(*handle), std::move(record->layout)});
  }
  if (read.more) {
    in_pass_ = true;
    cursor_ = trove::key_after(read.entries.back().key);
  }
  co_return files;
}

job::Task<Result<void>> RemovalQueue::remove(std::vector<DeadFile> files) {
  // Delete nothing for a removal that a crash of this machine could take back.
  SPATE_CO_TRY(std::ignore, co_await core_.sync());
  const WallTime now = core_.clock().wall();
  const WallTime until{now.ns + (core_.options().capability_life + kMargin).count()};
  const RemoveOutcome outcome = co_await core_.parts().io->remove(files, until, stopping_);
  SPATE_CHECK(outcome.removed.size() == files.size());
  job::Transaction transaction = core_.store().begin();
  std::uint64_t removed = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!outcome.removed[i]) continue;
    transaction.erase(removal_key(files[i].handle));
    ++removed;
  }
  const auto done = co_await transaction.commit(trove::Durability::kProcess);
  if (done.status != Errc::kOk) co_return Error(done.status, "commit of removals");
  taken_off(removed);
  note(files, outcome);
  co_return {};
}

void RemovalQueue::note(const std::vector<DeadFile>& files, const RemoveOutcome& outcome) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!outcome.removed[i]) {
      left_behind_ = true;
      delay_file(files[i], outcome);
      continue;
    }
    refused_.erase(files[i].handle);
    for (const Slot& slot : files[i].layout.slots) {
      for (const TargetId target : slot.targets) out_of_reach_.erase(target);
    }
  }
  for (const TargetId target : outcome.out_of_reach) delay_target(target, outcome);
}

void RemovalQueue::lengthen(Delay& delay) const {
  delay.backoff = delay.backoff == Duration(0) ? kFirstRetry : std::min(delay.backoff * 2, kLongestRetry);
  delay.retry_at = core_.executor().now() + delay.backoff;
}

void RemovalQueue::delay_target(TargetId target, const RemoveOutcome& outcome) {
  Delay& delay = out_of_reach_[target];
  if (delay.backoff == Duration(0)) {
    SPATE_LOG("server/meta", warn, "removed files stay on target={} for now error={}", target.value,
              outcome.failure.error().message());
  }
  lengthen(delay);
}

/// Delays a file that was not removed. If none of its targets is out of reach, a server has answered that it cannot
/// remove this one.
void RemovalQueue::delay_file(const DeadFile& file, const RemoveOutcome& outcome) {
  std::vector<TargetId> targets;
  for (const Slot& slot : file.layout.slots) targets.insert(targets.end(), slot.targets.begin(), slot.targets.end());
  const auto out_of_reach = [&outcome](TargetId target) { return is_out_of_reach(outcome, target); };
  if (std::any_of(targets.begin(), targets.end(), out_of_reach)) return;
  if (refused_.size() >= kMaxRefused && !refused_.contains(file.handle)) {
    for (const TargetId target : targets) delay_target(target, outcome);
    return;
  }
  Delay& delay = refused_[file.handle];
  if (delay.backoff == Duration(0)) {
    SPATE_LOG("server/meta", warn, "a removed file stays for now handle={} error={}", file.handle.value,
              outcome.failure.error().message());
  }
  lengthen(delay);
}

}  // namespace spate::meta
