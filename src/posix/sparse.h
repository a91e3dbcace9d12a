// SPDX-License-Identifier: Apache-2.0
// The rules of fallocate(2), and of lseek(2) with SEEK_DATA and SEEK_HOLE, for every front end.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "client/file/file.h"
#include "job/task.h"
#include "model/extent.h"

namespace spate::posix {

/// The work of one call of fallocate(2).
struct Allocation {
  Extent range;  // size > 0
  bool zero = false;
  bool keep_size = false;
};
/// `mode`: 0 reserves space; PUNCH_HOLE | KEEP_SIZE and ZERO_RANGE zero the range; KEEP_SIZE may be added.
/// kInvalidArgument: the range is not valid. kNotSupported: another mode.
Result<Allocation> allocation_of(int mode, std::int64_t offset, std::int64_t size);
/// kFileTooBig: the range ends beyond the largest possible file, and nothing has changed.
job::Task<Result<void>> allocate(client::File& file, Allocation allocation);

/// The first byte of data at or after `offset` or, with `hole`, of a hole (the file's end is one). kNoSuchDevice: there
/// is none, or `offset` is not in the file.
job::Task<Result<std::uint64_t>> find_data(client::File& file, std::int64_t offset, bool hole);

}  // namespace spate::posix
