// SPDX-License-Identifier: Apache-2.0
#include "trove/rocksdb/read.h"

#include <algorithm>
#include <memory>

#include "trove/rocksdb/status.h"

namespace spate::trove {
namespace {

Errc read_errc(const rocksdb::Status& status) { return status.IsIncomplete() ? Errc::kTryAgain : errc_of(status); }

}  // namespace

bool is_reserved(ByteView key) { return same_key(key, as_bytes(std::string_view(kFormatKey, sizeof kFormatKey))); }

Errc read_one(rocksdb::DB& db, const rocksdb::ReadOptions& options, ByteView key, std::optional<Bytes>& value) {
  rocksdb::PinnableSlice found;
  const rocksdb::Status status = db.Get(options, db.DefaultColumnFamily(), slice_of(key), &found);
  if (status.IsNotFound()) return Errc::kOk;
  if (!status.ok()) return read_errc(status);
  value = bytes_of(found);
  return Errc::kOk;
}

Errc GetRead::step(rocksdb::DB& db, const rocksdb::ReadOptions& options, std::size_t /*budget*/) {
  return read_one(db, options, key_, value_);
}

void GetRead::finish(TransactionState& /*state*/, KeyvalCompletion& done) { done.value = std::move(value_); }

ManyRead::ManyRead(std::span<const Bytes> keys, const TransactionState& state) : keys_(keys), values_(keys.size()) {
  open_.reserve(keys.size());
  KeyvalCompletion own;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!state.writes.empty() && state.get_own(keys[i], own)) {
      values_[i] = std::move(own.value);
    } else {
      open_.push_back(i);
    }
  }
}

void ManyRead::own_keys() {
  owned_keys_.assign(keys_.begin(), keys_.end());
  keys_ = owned_keys_;
}

Errc ManyRead::step_some(rocksdb::DB& db, const rocksdb::ReadOptions& options, std::span<const std::size_t> which,
                         std::vector<std::size_t>& missing) {
  std::vector<rocksdb::Slice> slices;
  slices.reserve(which.size());
  for (const std::size_t i : which) slices.push_back(slice_of(keys_[i]));
  std::vector<rocksdb::PinnableSlice> found(which.size());
  std::vector<rocksdb::Status> statuses(which.size());
  db.MultiGet(options, db.DefaultColumnFamily(), which.size(), slices.data(), found.data(), statuses.data());
  for (std::size_t n = 0; n < which.size(); ++n) {
    if (statuses[n].ok()) {
      values_[which[n]] = bytes_of(found[n]);
    } else if (statuses[n].IsIncomplete()) {
      missing.push_back(which[n]);
    } else if (!statuses[n].IsNotFound()) {
      return errc_of(statuses[n]);
    }
  }
  return Errc::kOk;
}

Errc ManyRead::step(rocksdb::DB& db, const rocksdb::ReadOptions& options, std::size_t budget) {
  static constexpr std::size_t kChunk = 256;
  std::vector<std::size_t> missing;
  std::size_t at = 0;
  while (at < open_.size() && at < budget) {
    const std::size_t n = std::min({kChunk, open_.size() - at, budget - at});
    const Errc status = step_some(db, options, std::span(open_).subspan(at, n), missing);
    if (status != Errc::kOk) return status;
    at += n;
  }
  missing.insert(missing.end(), open_.begin() + static_cast<std::ptrdiff_t>(at), open_.end());
  open_ = std::move(missing);
  return open_.empty() ? Errc::kOk : Errc::kTryAgain;
}

void ManyRead::finish(TransactionState& /*state*/, KeyvalCompletion& done) {
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    if (!values_[i]) continue;
    Bytes key = owned_keys_.empty() ? keys_[i] : std::move(owned_keys_[i]);
    done.entries.push_back({std::move(key), *std::move(values_[i])});
  }
}

RangeRead::RangeRead(const KeyRange& range, std::size_t wanted, const TransactionState& state)
    : range_(range), wanted_(wanted) {
  if (!state.writes.empty()) state.writes.copy_range(range.begin, range.end, own_.writes);
}

Errc RangeRead::step(rocksdb::DB& db, const rocksdb::ReadOptions& options, std::size_t budget) {
  std::vector<KeyValue>& entries = found_.entries;
  if (compare_keys(range_.begin, range_.end) >= 0) return Errc::kOk;
  rocksdb::ReadOptions bounded = options;
  const rocksdb::Slice upper = slice_of(range_.end);
  bounded.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> it(db.NewIterator(bounded));
  it->Seek(slice_of(entries.empty() ? range_.begin : entries.back().key));
  if (it->Valid() && !entries.empty() && same_key(view_of(it->key()), entries.back().key)) it->Next();
  for (; it->Valid(); it->Next()) {
    const ByteView key = view_of(it->key());
    if (is_reserved(key)) continue;
    if (entries.size() == wanted_) {
      found_.more = true;
      return Errc::kOk;
    }
    if (budget-- == 0) return Errc::kTryAgain;
    entries.push_back({to_bytes(key), bytes_of(it->value())});
  }
  return read_errc(it->status());
}

void RangeRead::finish(TransactionState& state, KeyvalCompletion& done) {
  state.finish_range(range_, std::move(found_), own_.writes, done);
}

}  // namespace spate::trove
