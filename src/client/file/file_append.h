// SPDX-License-Identifier: Apache-2.0
// FileAppend: appends to an open file, and extends it.
#pragma once

#include <optional>
#include <span>

#include "client/file/file_data.h"
#include "client/file/file_gather.h"
#include "client/locks/appends.h"

namespace spate::client {

/// The appends of one open file. One executor. Life cycle: construct -> calls -> leave() -> destroyed.
class FileAppend {
 public:
  /// `data` outlives this object.
  explicit FileAppend(FileData& data) : data_(data) {}
  FileAppend(const FileAppend&) = delete;
  FileAppend& operator=(const FileAppend&) = delete;

  /// As File::append() and File::extend_to().
  /// `gather`: where the append may be gathered, which then has one view. Null: it may not.
  job::Task<Result<std::uint64_t>> append(std::span<const ByteView> memory, job::StopToken stop,
                                          FileGather* gather = nullptr);
  job::Task<Result<void>> extend_to(std::uint64_t size);
  /// Call it before the file is closed.
  job::Task<void> leave();

 private:
  /// Writes `memory` at the end. If `least` is not 0: writes a zero byte that makes a shorter file as long.
  struct Params {
    std::span<const ByteView> memory;
    std::uint64_t request_id = 0;
    std::uint64_t least = 0;
    job::StopToken stop;
    FileGather* gather = nullptr;
  };
  job::Task<Result<void>> extend_by_servers(std::uint64_t size);
  job::Task<Result<std::uint64_t>> append_in_turn(Params params);
  job::Task<Result<void>> right_in_time(Appends::AppendedPtr file, job::StopToken stop);
  job::Task<Result<std::uint64_t>> append_now(Appends::AppendedPtr file, Params params);
  job::Task<Result<std::uint64_t>> append_once(Appends::Appended& file, Params params);
  job::Task<Result<std::uint64_t>> end_of_file(Appends::Appended& file, const Capability& capability,
                                               job::StopToken stop);
  std::optional<std::uint64_t> known_end(const Appends::Appended& file);
  Appends& rights() { return data_.cluster().appends(); }

  FileData& data_;
  Appends::AppendedPtr appended_;  // set by the first append
};

}  // namespace spate::client
