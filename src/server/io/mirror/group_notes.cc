// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/group_notes.h"

#include <algorithm>
#include <utility>

#include "job/range_read.h"

namespace spate::io {
namespace {

constexpr std::size_t kNotesOfOneRead = 256;

}  // namespace

job::Task<Result<std::vector<GroupNote>>> load_group_notes(job::KeyvalContext& keyval) {
  std::vector<GroupNote> notes;
  trove::KeyRange range;
  range.begin = group_note_first();
  range.end = group_note_after_all();
  range.limit = kNotesOfOneRead;
  range.mode = trove::ReadMode::kSnapshot;
  const auto take = [&notes](const trove::KeyValue& entry) -> Result<void> {
    SPATE_TRY(GroupNote note, decode_group_note(entry.value));
    notes.push_back(std::move(note));
    return {};
  };
  job::Transaction transaction = keyval.begin();
  SPATE_CO_TRY(std::ignore, co_await job::read_range(transaction, std::move(range), "notes of data groups", take));
  co_return notes;
}

job::Task<Result<bool>> is_counted_on(job::KeyvalContext& keyval, TargetId target) {
  SPATE_CO_TRY(const std::vector<GroupNote> notes, co_await load_group_notes(keyval));
  co_return std::ranges::any_of(
      notes, [target](const GroupNote& note) { return !note.lacks_all && note.record.find(target) != nullptr; });
}

}  // namespace spate::io
