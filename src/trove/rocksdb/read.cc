// SPDX-License-Identifier: Apache-2.0
#include "trove/rocksdb/read.h"

#include <algorithm>
#include <memory>

#include "trove/rocksdb/status.h"

namespace spate::trove {
namespace {

// The inodes of a directory are mostly neighbours; in one page of a large directory, they lie a few keys apart. Costs
// are in tenths of a look-up by filters and index (keyval_bench): a step to the next key costs 1, a seek 20.
constexpr std::size_t kFewestNeighbours = 8;
constexpr std::size_t kSeekCost = 20;
constexpr std::size_t kLookUpCost = 10;
constexpr std::size_t kMostSteps = 16;

/// An iterator that steps from key to key; null if there are too few keys for it to pay.
std::unique_ptr<rocksdb::Iterator> neighbours(rocksdb::DB& db, const rocksdb::ReadOptions& options, std::size_t keys) {
  if (keys < kFewestNeighbours) return nullptr;
  return std::unique_ptr<rocksdb::Iterator>(db.NewIterator(options));
}

Errc read_errc(const rocksdb::Status& status) { return status.IsIncomplete() ? Errc::kTryAgain : errc_of(status); }

}  // namespace

bool is_reserved(ByteView key) { return same_key(key, as_bytes(std::string_view(kFormatKey, sizeof kFormatKey))); }

Errc read_one(rocksdb::DB& db, const rocksdb::ReadOptions& options, ByteView key, std::optional<Bytes>& value) {
  rocksdb::PinnableSlice found;
  const rocksdb::Status status = db.Get(options, db.DefaultColumnFamily(), slice_of(key), &found);
  if (status.IsNotFound()) return Errc::kOk;
  if (!status.ok()) return read_errc(status);
  // RocksDB 7.8 gives OK and an empty value, not Incomplete, when the table itself is not open (fixed upstream in 2024,
  // pull request 12443). So an empty value counts only if the read may go to the device.
  if (found.empty() && options.read_tier == rocksdb::kBlockCacheTier) return Errc::kTryAgain;
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
  sort_open();
  owned_keys_.assign(keys_.begin(), keys_.end());
  keys_ = owned_keys_;
}

void ManyRead::sort_open() {
  if (open_.size() < kFewestNeighbours) return;
  std::sort(open_.begin(), open_.end(),
            [this](std::size_t a, std::size_t b) { return compare_keys(keys_[a], keys_[b]) < 0; });
}

std::size_t ManyRead::step_neighbours(rocksdb::Iterator* it, Indices which) {
  if (it == nullptr) return 0;
  std::size_t at = 0;
  // Scattered keys are better looked up one by one, with the help of the filters.
  for (std::size_t cost = 0; at < which.size() && cost <= 3 * kSeekCost + at * kLookUpCost; ++at) {
    const Bytes& key = keys_[which[at]];
    const auto distance = [&] { return it->Valid() ? compare_keys(view_of(it->key()), key) : -1; };
    int where = distance();
    for (std::size_t steps = 0; where < 0 && it->Valid() && steps < kMostSteps; ++steps, ++cost) {
      it->Next();
      where = distance();
    }
    if (where < 0) {
      cost += kSeekCost;
      it->Seek(slice_of(key));
      where = distance();
    }
    if (!it->Valid()) break;  // not in memory, an error, or the end: a look-up decides which
    if (where == 0) values_[which[at]] = bytes_of(it->value());
  }
  return at;
}

Errc ManyRead::step_chunk(rocksdb::DB& db, const rocksdb::ReadOptions& options, Indices which) {
  std::vector<rocksdb::Slice> slices;
  slices.reserve(which.size());
  for (const std::size_t i : which) slices.push_back(slice_of(keys_[i]));
  std::vector<rocksdb::PinnableSlice> found(which.size());
  std::vector<rocksdb::Status> statuses(which.size());
  db.MultiGet(options, db.DefaultColumnFamily(), which.size(), slices.data(), found.data(), statuses.data());
  for (std::size_t n = 0; n < which.size(); ++n) {
    if (statuses[n].ok()) {
      values_[which[n]] = bytes_of(found[n]);
    } else if (!statuses[n].IsNotFound()) {
      return errc_of(statuses[n]);
    }
  }
  return Errc::kOk;
}

Errc ManyRead::step(rocksdb::DB& db, const rocksdb::ReadOptions& options, std::size_t budget) {
  if (options.read_tier != rocksdb::kBlockCacheTier) return step_part(db, options, 0, 1);
  // The keys are looked up one by one, because MultiGet of RocksDB 7.8 reads from the device whatever the read tier
  // says.
  sort_open();
  const auto it = neighbours(db, options, open_.size());
  std::size_t at = step_neighbours(it.get(), Indices(open_).first(std::min(open_.size(), budget)));
  Errc status = Errc::kOk;
  for (; at < open_.size() && at < budget; ++at) {
    status = read_one(db, options, keys_[open_[at]], values_[open_[at]]);
    if (status != Errc::kOk) break;
  }
  open_.erase(open_.begin(), open_.begin() + static_cast<std::ptrdiff_t>(at));
  if (status != Errc::kOk) return status;
  return open_.empty() ? Errc::kOk : Errc::kTryAgain;
}

unsigned ManyRead::parts() const {
  constexpr std::size_t kWorthAThread = 64;
  return static_cast<unsigned>(std::clamp<std::size_t>(open_.size() / kWorthAThread, 1, 64));
}

Errc ManyRead::step_part(rocksdb::DB& db, const rocksdb::ReadOptions& options, unsigned part, unsigned parts) {
  static constexpr std::size_t kChunk = 128;
  const std::size_t begin = open_.size() * part / parts;
  const Indices own = Indices(open_).subspan(begin, open_.size() * (part + 1) / parts - begin);
  const auto it = neighbours(db, options, own.size());
  // Neighbours may follow scattered keys: in a large directory, these are the inodes made while it was small.
  for (std::size_t at = 0; at < own.size();) {
    at += step_neighbours(it.get(), own.subspan(at));
    const std::size_t n = std::min(kChunk, own.size() - at);
    const Errc status = step_chunk(db, options, own.subspan(at, n));
    if (status != Errc::kOk) return status;
    at += n;
  }
  return Errc::kOk;
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
