// SPDX-License-Identifier: Apache-2.0
// The rules of fallocate(2), and of lseek(2) with SEEK_DATA and SEEK_HOLE, for every front end.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "client/file/file.h"
#include "job/task.h"
#include "model/extent.h"

namespace spate::posix {

/// The task of one call of fallocate(2).
struct Allocation {
  Extent range;  // size > 0
  bool zero = false;
  bool keep_size = false;
};
/// 0 reserves, PUNCH_HOLE | KEEP_SIZE and ZERO_RANGE zero; KEEP_SIZE may be added. kInvalidArgument: the range;
/// kNotSupported: another mode.
Result<Allocation> allocation_of(int mode, std::int64_t offset, std::int64_t size);
/// kFileTooBig: the range ends behind the largest file; nothing has changed.
job::Task<Result<void>> allocate(client::File& file, Allocation allocation);

/// The first byte of data from `offset` on, or of a hole (the end of the file is one). kNoSuchDevice: there is none, or
/// `offset` is not in the file.
job::Task<Result<std::uint64_t>> find_data(client::File& file, std::int64_t offset, bool hole);

}  // namespace spate::posix
