// SPDX-License-Identifier: Apache-2.0
#include "posix/sparse.h"

#include <linux/falloc.h>

namespace spate::posix {

Result<Allocation> allocation_of(int mode, std::int64_t offset, std::int64_t size) {
  if (offset < 0 || size <= 0) return Errc::kInvalidArgument;
  const bool keep_size = (mode & FALLOC_FL_KEEP_SIZE) != 0;
  const int what = mode & ~FALLOC_FL_KEEP_SIZE;
  const bool punch = what == FALLOC_FL_PUNCH_HOLE && keep_size;
  if (what != 0 && what != FALLOC_FL_ZERO_RANGE && !punch) return Errc::kNotSupported;
  return Allocation{{static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(size)}, what != 0, keep_size};
}

job::Task<Result<void>> allocate(client::File& file, Allocation allocation) {
  const Extent range = allocation.range;
  if (range.offset + range.size > kMaxFileBytes) co_return Errc::kFileTooBig;
  if (allocation.zero) {
    SPATE_CO_TRY(std::ignore, co_await file.punch(range.offset, range.size));
  } else {
    SPATE_CO_TRY(std::ignore, co_await file.allocate(range.offset, range.size));
  }
  if (allocation.keep_size) co_return Result<void>();
  auto extended = co_await file.extend_to(range.offset + range.size);
  co_return extended;
}

job::Task<Result<std::uint64_t>> find_data(client::File& file, std::int64_t offset, bool hole) {
  if (offset < 0) co_return Errc::kNoSuchDevice;
  const auto from = static_cast<std::uint64_t>(offset);
  if (from >= kMaxFileBytes) co_return Errc::kNoSuchDevice;
  SPATE_CO_TRY(const client::DataMap map, co_await file.data_map(from, 1));
  if (from >= map.file_size()) co_return Errc::kNoSuchDevice;
  if (hole) co_return map.next_hole(from);
  const std::uint64_t data = map.next_data(from);
  if (data >= map.file_size()) co_return Errc::kNoSuchDevice;
  co_return data;
}

}  // namespace spate::posix
