// SPDX-License-Identifier: Apache-2.0
// FileAppend: what moves the end of an open file.
#pragma once

#include <span>

#include "client/file/file_data.h"
#include "client/locks/appends.h"

namespace spate::client {

/// The appends of one open file. One executor. Life: construct -> calls -> leave() -> destroyed.
class FileAppend {
 public:
  /// Outlives it.
  explicit FileAppend(FileData& data) : data_(data) {}
  FileAppend(const FileAppend&) = delete;
  FileAppend& operator=(const FileAppend&) = delete;

  /// As File::append() and File::extend_to().
  job::Task<Result<std::uint64_t>> append(std::span<const ByteView> memory, job::StopToken stop);
  job::Task<Result<void>> extend_to(std::uint64_t size);
  /// The file is closed.
  job::Task<void> leave();

 private:
  /// `memory` at the end; or with `least` not 0 a zero byte there, unless the file reaches as far.
  struct Params {
    std::span<const ByteView> memory;
    std::uint64_t request_id = 0;
    std::uint64_t least = 0;
    job::StopToken stop;
  };
  job::Task<Result<void>> extend_by_servers(std::uint64_t size);
  job::Task<Result<std::uint64_t>> append_in_turn(Params params);
  job::Task<Result<void>> right_in_time(Appends::AppendedPtr file, job::StopToken stop);
  job::Task<Result<std::uint64_t>> append_now(Appends::AppendedPtr file, Params params);
  job::Task<Result<std::uint64_t>> append_once(Appends::Appended& file, Params params);
  Appends& rights() { return data_.cluster().appends(); }

  FileData& data_;
  Appends::AppendedPtr appended_;  // from the first append on
};

}  // namespace spate::client
