// SPDX-License-Identifier: Apache-2.0
#include "server/meta/store/inode_count.h"

#include "log/log.h"
#include "server/meta/store/keys.h"
#include "server/meta/store/records.h"
#include "trove/key_order.h"

namespace spate::meta {
namespace {

constexpr std::string_view kName = "objects";
constexpr std::size_t kInodesAtOnce = 500;
constexpr Duration kPause = std::chrono::milliseconds(2);  // between pages, so that requests go first

}  // namespace

InodeCount::InodeCount(job::KeyvalContext& store) : store_(store), gate_(store.executor()) {}

std::uint64_t InodeCount::count() const {
  const std::int64_t sum = static_cast<std::int64_t>(counted_) + changed_;
  return sum < 0 ? 0 : static_cast<std::uint64_t>(sum);
}

job::Task<Result<void>> InodeCount::start() {
  job::Transaction transaction = store_.begin();
  const StoreKey key = global_key(kName);
  const auto read = co_await transaction.get(key);
  if (read.status != Errc::kOk) co_return read.status;
  if (!read.value) {
    started_ = counting_ = true;
    job::spawn(gate_, count_all());
    co_return {};
  }
  SPATE_CO_TRY(const CounterRecord record, decode_record<CounterRecord>(*read.value));
  counted_ = record.next;
  // The record is erased while the server runs, since it would be wrong after a crash.
  transaction.erase(key);
  const auto done = co_await transaction.commit(trove::Durability::kMachine);
  started_ = done.status == Errc::kOk;
  co_return started_ ? Result<void>() : Result<void>(done.status);
}

job::Task<Result<void>> InodeCount::stop() {
  stopping_.request_stop();
  co_await gate_.close();
  if (!started_ || counting_) co_return {};
  job::Transaction transaction = store_.begin();
  transaction.put(global_key(kName), encoded(CounterRecord{count()}));
  const auto done = co_await transaction.commit(trove::Durability::kProcess);
  co_return done.status == Errc::kOk ? Result<void>() : Result<void>(done.status);
}

job::Task<Result<void>> InodeCount::count_page(job::Transaction& store, Bytes& from) {
  trove::KeyRange range = all_of(KeyKind::kInode);
  range.begin = std::move(from);
  range.limit = kInodesAtOnce;
  range.mode = trove::ReadMode::kSnapshot;
  const auto read = co_await store.range(range);
  if (read.status != Errc::kOk) co_return read.status;
  counted_ += read.entries.size();
  from.clear();
  if (read.more) from = trove::key_after(read.entries.back().key);
  co_return {};
}

job::Task<void> InodeCount::count_all() {
  // One transaction: it sees the store as it was when `changed_` was 0.
  job::Transaction transaction = store_.begin();
  Bytes from = all_of(KeyKind::kInode).begin;
  while (!from.empty()) {
    const auto counted = co_await count_page(transaction, from);
    if (!counted) {
      SPATE_LOG("server/meta", warn, "inodes not counted error={}", counted.error().message());
      co_return;
    }
    if (from.empty()) break;
    const auto slept = co_await store_.executor().sleep(kPause, stopping_);
    if (!slept) co_return;
  }
  counting_ = false;
}

}  // namespace spate::meta
