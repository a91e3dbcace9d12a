// SPDX-License-Identifier: Apache-2.0
#include "server/meta/store/counter.h"

#include <algorithm>

#include "server/meta/store/keys.h"
#include "server/meta/store/records.h"

namespace spate::meta {

Counter::Counter(CounterOptions options, job::KeyvalContext& store)
    : options_(std::move(options)), store_(store), refilled_(store.executor()), gate_(store.executor()) {
  SPATE_CHECK(options_.batch >= 4);
}

job::Task<Result<void>> Counter::start() {
  SPATE_CO_TRY(std::ignore, co_await refill());
  co_return {};
}

job::Task<void> Counter::stop() { co_await gate_.close(); }

job::Task<Result<void>> Counter::refill() {
  do {
    SPATE_CO_TRY(std::ignore, co_await reserve());
  } while (spare_next_ < least_);  // skip_to_after() came meanwhile
  co_return {};
}

/// Sets the next batch aside.
job::Task<Result<void>> Counter::reserve() {
  const StoreKey key = global_key(options_.name);
  for (;;) {
    job::Transaction transaction = store_.begin();
    auto read = co_await transaction.get(key);
    if (read.status != Errc::kOk) co_return read.status;
    CounterRecord record{options_.first, {}};
    if (read.value) {
      SPATE_CO_TRY(record, decode_record<CounterRecord>(*read.value));
    }
    const std::uint64_t begin = std::max(record.next, least_);
    note_skipped(record, begin);
    record.next = begin + options_.batch;
    transaction.put(key, encoded(record));
    const auto done = co_await transaction.commit(trove::Durability::kMachine);
    if (done.status == Errc::kConflict) continue;
    if (done.status != Errc::kOk) co_return done.status;
    if (begin >= least_) {
      skipped_from_.reset();
    } else {
      skipped_from_ = std::min(skipped_from_.value_or(begin), begin);
    }
    spare_next_ = begin;
    spare_end_ = record.next;
    co_return {};
  }
}

/// Records what is left out before `begin`. It keeps no more than kMaxSkipped ranges: numbers of older ones count as
/// given out then.
void Counter::note_skipped(CounterRecord& record, std::uint64_t begin) {
  const std::uint64_t from = std::min(skipped_from_.value_or(begin), record.next);
  std::vector<NumberRange>& all = record.skipped;
  while (!all.empty() && all.back().begin >= from) all.pop_back();
  const std::uint64_t first = all.empty() ? from : std::max(from, all.back().end);
  if (first < begin) all.push_back({first, begin});
  if (all.size() > CounterRecord::kMaxSkipped) all.erase(all.begin());
}

bool Counter::skip_to_after(std::uint64_t used) {
  if (used < least_) return false;
  const std::uint64_t unused = next_ != end_ ? next_ : spare_next_;
  const std::uint64_t last = std::max(end_, spare_end_);
  if (used < unused) return false;
  least_ = used + 1;
  if (unused != last) skipped_from_ = std::min(skipped_from_.value_or(unused), unused);
  next_ = end_;
  spare_next_ = spare_end_;
  return true;
}

job::Task<void> Counter::refill_in_background() {
  const auto done = co_await refill();
  refill_status_ = done.code();
  refilling_ = false;
  refilled_.set();
}

job::Task<Result<std::uint64_t>> Counter::take(job::StopToken stop, std::uint64_t count) {
  SPATE_CHECK(count >= 1 && count <= options_.batch / 2);
  for (;;) {
    if (end_ - next_ < count && spare_next_ != spare_end_) {
      next_ = spare_next_;
      end_ = spare_end_;
      spare_next_ = spare_end_;
    }
    const bool low = end_ - next_ <= options_.batch / 2 && spare_next_ == spare_end_;
    if (low && !refilling_) {
      if (gate_.closed()) co_return Errc::kCancelled;
      refilling_ = true;
      refilled_.reset();
      job::spawn(gate_, refill_in_background());
    }
    if (end_ - next_ >= count) {
      next_ += count;
      co_return next_ - count;
    }
    SPATE_CO_TRY(std::ignore, co_await refilled_.wait(stop));
    if (spare_next_ == spare_end_ && refill_status_ != Errc::kOk) co_return refill_status_;
  }
}

}  // namespace spate::meta
