// SPDX-License-Identifier: Apache-2.0
// NumberMarks: up to which numbers an io server has met files and clients.
#pragma once

#include <algorithm>

#include "job/semaphore.h"
#include "job/storage.h"
#include "server/io/records.h"

namespace spate::io {

/// The highest numbers of files and of clients that this server has met, rounded up. A meta server whose store was put
/// back from a backup asks for them, since its counters may have gone back (wire::UsedNumbersRequest). Without that, a
/// new file could get the number of one that was made after the backup, and with it that one's datafiles.
///
/// A mark is durable before the first datafile beyond it is changed. One executor; pinned. Life cycle: construct ->
/// load() awaited -> the other calls. The store outlives it.
class NumberMarks {
 public:
  explicit NumberMarks(job::KeyvalContext& keyval) : keyval_(keyval), turn_(keyval.executor(), 1) {}
  NumberMarks(const NumberMarks&) = delete;
  NumberMarks& operator=(const NumberMarks&) = delete;

  job::Task<Result<void>> load();
  /// Asks the store only once for many new numbers.
  job::Task<Result<void>> note(Handle handle);
  job::Task<Result<void>> note(ClientId client);
  const NumberMarksRecord& marks() const { return marks_; }
  /// The groups' own notes are durable; here is only the highest number.
  void note_group(TargetId group) { last_group_ = std::max(last_group_, group); }
  TargetId last_group() const { return last_group_; }

 private:
  job::Task<Result<void>> raise(NumberMarksRecord least);

  job::KeyvalContext& keyval_;
  job::Semaphore turn_;  // changes run one after another
  NumberMarksRecord marks_;
  TargetId last_group_;
};

}  // namespace spate::io
