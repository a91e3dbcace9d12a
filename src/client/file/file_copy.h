// SPDX-License-Identifier: Apache-2.0
// FileCopy: copies a range of one open file to another. The io servers do it alone where that is possible.
#pragma once

#include <vector>

#include "client/file/file_append.h"
#include "client/file/file_data.h"
#include "wire/copy_messages.h"

namespace spate::client {

/// A range of one file, and the offset in the other file to which it is copied. All are in bytes.
struct CopySpan {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  std::uint64_t size = 0;
};

/// One copy, for File::copy_from(). Life cycle: construct -> run() once, awaited -> destroyed. Both files stay open
/// meanwhile. One executor.
class FileCopy {
 public:
  /// All parameters outlive this object. `end`: of the file that is written.
  FileCopy(FileData& from, FileData& to, FileAppend& end) : from_(from), to_(to), end_(end) {}

  /// As File::copy_from(). Returns the number of bytes copied.
  job::Task<Result<std::uint64_t>> run(CopySpan span);

 private:
  /// The part of a copy that one server makes.
  struct ServerCopy {
    rpc::Channel* channel = nullptr;
    std::vector<wire::CopyPiece> pieces;
  };
  using Shares = std::vector<ServerCopy>;
  /// The capabilities under which a copy is made.
  struct CopyRights {
    Capability from;
    Capability to;
  };
  Result<Shares> shares_of(CopySpan span);
  job::Task<Result<std::uint64_t>> source_size();
  job::Task<Result<void>> copy_share(const ServerCopy& share, const CopyRights& rights, Limits limits);
  job::Task<Result<void>> copy_by_servers(CopySpan span);
  job::Task<Result<std::uint64_t>> copy_by_client(CopySpan span);
  job::Task<Result<std::uint64_t>> copy_data(CopySpan span);

  FileData& from_;
  FileData& to_;
  FileAppend& end_;
};

}  // namespace spate::client
