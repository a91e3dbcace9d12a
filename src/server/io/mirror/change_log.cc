// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/change_log.h"

#include <algorithm>

#include "job/range_read.h"
#include "trove/key_order.h"

namespace spate::io {
namespace {

constexpr std::size_t kLoadBatch = 4096;
constexpr std::size_t kForgetBatch = 4096;

std::uint64_t region_of(std::uint64_t offset) { return offset / ChangedRegion::kBytes; }

}  // namespace

job::Task<Result<void>> ChangeLog::load() {
  trove::KeyRange range;
  range.begin = change_first(group_);
  range.end = change_after_all(group_);
  range.limit = kLoadBatch;
  range.mode = trove::ReadMode::kSnapshot;
  const auto take = [this](const trove::KeyValue& entry) -> Result<void> {
    SPATE_TRY(const ChangedRegion region, decode_change_key(entry.key));
    SPATE_TRY(const std::uint64_t window, decode_change(entry.value));
    notes_[region.datafile][{region.to_the_end, region.region}] = {window, window};
    newest_ = std::max(newest_, window);
    ++count_;
    return {};
  };
  job::Transaction transaction = keyval_.begin();
  auto done = co_await job::read_range(transaction, std::move(range), "notes of changes", take);
  co_return done;
}

job::Task<Result<void>> ChangeLog::note(DatafileId datafile, std::span<const Extent> extents, std::uint64_t window) {
  std::vector<Position> positions;
  std::uint64_t regions = 0;
  std::uint64_t lowest = ~std::uint64_t{0};
  for (const Extent& extent : extents) {
    if (extent.size == 0) continue;
    const std::uint64_t first = region_of(extent.offset);
    const std::uint64_t last = region_of(extent.offset + extent.size - 1);
    lowest = std::min(lowest, first);
    regions += last - first + 1;
    for (std::uint64_t r = first; r <= last && regions <= kMostOfOneChange; ++r) {
      if (positions.empty() || positions.back().region != r) positions.push_back({false, r});
    }
  }
  if (regions > kMostOfOneChange) positions.assign(1, Position{true, lowest});
  auto stored = co_await store(datafile, std::move(positions), window);
  co_return stored;
}

job::Task<Result<void>> ChangeLog::note_from(DatafileId datafile, std::uint64_t offset, std::uint64_t window) {
  std::vector<Position> positions{Position{true, region_of(offset)}};
  auto stored = co_await store(datafile, std::move(positions), window);
  co_return stored;
}

/// Two changes at once may both store the same note: neither goes on before the store has it.
job::Task<Result<void>> ChangeLog::store(DatafileId datafile, std::vector<Position> positions, std::uint64_t window) {
  if (positions.empty()) co_return Result<void>();
  Notes& notes = notes_[datafile];
  const std::size_t before = notes.size();
  // Each commit of a note lists its datafile. A note in memory alone proves nothing: its commit may fail.
  const bool listed = std::ranges::any_of(notes, [](const auto& note) { return note.second.stored != 0; });
  const Notes::const_iterator whole = notes.find({true, 0});
  const bool covered = whole != notes.end() && whole->second.stored >= window;
  std::erase_if(positions, [&](const Position& position) {
    const auto found = notes.find(position);
    return covered || (found != notes.end() && found->second.stored >= window);
  });
  if (positions.empty()) co_return Result<void>();
  newest_ = std::max(newest_, window);
  const Bytes value = encode_change(window);
  job::Transaction transaction = keyval_.begin();
  for (const Position& position : positions) {
    Note& note = notes[position];
    note.window = std::max(note.window, window);
    const ChangedRegion region{datafile, position.to_the_end, position.region};
    transaction.put(change_key(group_, region), value);
  }
  if (!listed) transaction.put(group_datafile_key(group_, datafile), {});
  count_ += notes.size() - before;
  std::vector<ChangedRegion> merged;
  if (count_ > most_regions_) merged = merge_largest();
  for (const ChangedRegion& region : merged) {
    if (region.to_the_end && region.region == 0) {
      transaction.put(change_key(group_, region), encode_change(newest_));
    } else {
      transaction.erase(change_key(group_, region));
    }
  }
  const trove::KeyvalCompletion done = co_await transaction.commit(trove::Durability::kProcess);
  if (done.status != Errc::kOk) co_return done.status;
  ++stored_;
  const auto mark = [&](DatafileId id, const Position& position, std::uint64_t stored) {
    const auto of = notes_.find(id);  // may have changed
    if (of == notes_.end()) return;
    const auto found = of->second.find(position);
    if (found != of->second.end()) found->second.stored = std::max(found->second.stored, stored);
  };
  for (const Position& position : positions) mark(datafile, position, window);
  if (!merged.empty()) mark(merged.front().datafile, {true, 0}, newest_);
  co_return Result<void>();
}

/// Merges the notes of the datafile that has the most. Returns the regions of its old notes, and then the merged one.
std::vector<ChangedRegion> ChangeLog::merge_largest() {
  const auto largest = std::max_element(notes_.begin(), notes_.end(),
                                        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  std::vector<ChangedRegion> merged;
  if (largest->second.size() < 2) return merged;
  for (const auto& [position, note] : largest->second) {
    if (position != Position{true, 0}) merged.push_back({largest->first, position.to_the_end, position.region});
  }
  merged.push_back({largest->first, true, 0});
  count_ -= largest->second.size() - 1;
  largest->second = {{Position{true, 0}, Note{newest_, 0}}};
  return merged;
}

job::Task<Result<void>> ChangeLog::make_durable() {
  const std::uint64_t wanted = stored_;
  if (durable_ >= wanted) co_return Result<void>();
  const trove::KeyvalCompletion done = co_await keyval_.sync();
  if (done.status != Errc::kOk) co_return done.status;
  durable_ = std::max(durable_, wanted);
  co_return Result<void>();
}

job::Task<Result<void>> ChangeLog::forget(std::uint64_t window) {
  for (bool more = true; more;) {
    more = false;
    std::vector<ChangedRegion> old;
    for (const auto& [datafile, notes] : notes_) {
      for (const auto& [position, note] : notes) {
        if (note.window <= window) old.push_back({datafile, position.to_the_end, position.region});
        more = old.size() >= kForgetBatch;
        if (more) break;
      }
      if (more) break;
    }
    if (old.empty()) break;
    // The notes leave memory first: a change that comes meanwhile notes its regions again, after this commit.
    job::Transaction transaction = keyval_.begin();
    for (const ChangedRegion& region : old) {
      transaction.erase(change_key(group_, region));
      const auto of = notes_.find(region.datafile);
      count_ -= of->second.erase({region.to_the_end, region.region});
      if (of->second.empty()) notes_.erase(of);
    }
    const trove::KeyvalCompletion done = co_await transaction.commit(trove::Durability::kProcess);
    if (done.status != Errc::kOk) co_return done.status;
  }
  co_return Result<void>();
}

job::Task<Result<std::vector<DatafileId>>> ChangeLog::list(DatafileId after, std::size_t max) {
  trove::KeyRange range;
  range.begin = group_datafile_key(group_, after);
  if (after != DatafileId()) range.begin = trove::key_after(std::move(range.begin));
  range.end = group_datafile_after_all(group_);
  range.limit = max;
  range.mode = trove::ReadMode::kSnapshot;
  job::Transaction transaction = keyval_.begin();
  const trove::KeyvalCompletion found = co_await transaction.range(range);
  if (found.status != Errc::kOk) co_return found.status;
  std::vector<DatafileId> datafiles;
  for (const trove::KeyValue& entry : found.entries) {
    SPATE_CO_TRY(const DatafileId datafile, decode_group_datafile_key(entry.key));
    datafiles.push_back(datafile);
  }
  co_return datafiles;
}

job::Task<Result<void>> ChangeLog::unlist(DatafileId datafile) {
  job::Transaction transaction = keyval_.begin();
  transaction.erase(group_datafile_key(group_, datafile));
  const trove::KeyvalCompletion done = co_await transaction.commit(trove::Durability::kProcess);
  if (done.status != Errc::kOk) co_return done.status;
  co_return Result<void>();
}

std::vector<ChangedRegion> ChangeLog::page(const std::optional<ChangedRegion>& after, std::size_t max) const {
  std::vector<ChangedRegion> found;
  auto of = after ? notes_.lower_bound(after->datafile) : notes_.begin();
  for (; of != notes_.end() && found.size() < max; ++of) {
    const bool begun = after && of->first == after->datafile;
    auto at = begun ? of->second.upper_bound({after->to_the_end, after->region}) : of->second.begin();
    for (; at != of->second.end() && found.size() < max; ++at) {
      found.push_back({of->first, at->first.to_the_end, at->first.region});
    }
  }
  return found;
}

std::vector<DatafileId> ChangeLog::datafiles(std::uint64_t window) const {
  std::vector<DatafileId> found;
  for (const auto& [datafile, notes] : notes_) {
    const bool old = std::ranges::any_of(notes, [&](const auto& note) { return note.second.window <= window; });
    if (old) found.push_back(datafile);
  }
  return found;
}

}  // namespace spate::io
