// SPDX-License-Identifier: Apache-2.0
// OpenFile: copy_file_range(2).
#include <fcntl.h>

#include <algorithm>

#include "posix/open_file.h"

namespace spate::posix {

/// Checks in the same order as Linux, because the order decides the error of a call with two mistakes.
Result<void> OpenFile::check_copy(const OpenFile& source) const {
  if ((source.flags_ & O_PATH) != 0 || (flags_ & O_PATH) != 0) return Errc::kBadDescriptor;
  if (source.type_ == FileType::kDirectory || type_ == FileType::kDirectory) return Errc::kIsDirectory;
  if (source.file_ == nullptr || file_ == nullptr) return Errc::kInvalidArgument;
  const bool allowed = allows(source.file_->rights(), Rights::kRead) && allows(file_->rights(), Rights::kWrite);
  return allowed && (flags_ & O_APPEND) == 0 ? Result<void>() : Errc::kBadDescriptor;
}

job::Task<Result<std::uint64_t>> OpenFile::copy_now(OpenFile& source, client::CopySpan span) {
  SPATE_CO_TRY(const Attributes from, co_await source.file_->stat());
  span.size = span.from < from.size ? std::min(span.size, from.size - span.from) : 0;
  if (source.handle_ == handle_ && span.from < span.to + span.size && span.to < span.from + span.size)
    co_return Error(Errc::kInvalidArgument, "the ranges overlap");
  if (span.size == 0) co_return std::uint64_t{0};
  if (span.to >= kMaxFileBytes) co_return Errc::kFileTooBig;
  span.size = std::min(span.size, kMaxFileBytes - span.to);
  SPATE_CO_TRY(const std::uint64_t copied, co_await file_->copy_from(*source.file_, span));
  if ((flags_ & (O_SYNC | O_DSYNC)) != 0) {
    SPATE_CO_TRY(std::ignore, co_await file_->sync());
  }
  co_return copied;
}

job::Task<Result<std::uint64_t>> OpenFile::copy_from(OpenFile& source, CopyParams params) {
  SPATE_CO_TRY(std::ignore, check_copy(source));
  if (params.from.value_or(0) < 0 || params.to.value_or(0) < 0) co_return Errc::kInvalidArgument;
  // Take both positions' turns in a fixed order, so that two copies cannot wait for each other.
  OpenFile* const first = std::min(&source, this);
  OpenFile* const second = std::max(&source, this);
  SPATE_CO_TRY(const auto first_turn, co_await first->position_turn_.acquire(1));
  job::Semaphore::Units second_turn;
  if (second != first) {
    SPATE_CO_TRY(second_turn, co_await second->position_turn_.acquire(1));
  }
  client::CopySpan span;
  span.from = params.from ? static_cast<std::uint64_t>(*params.from) : source.position_->load();
  span.to = params.to ? static_cast<std::uint64_t>(*params.to) : position_->load();
  span.size = params.size;
  if (span.from + span.size < span.from || span.to + span.size < span.to) co_return Errc::kInvalidArgument;
  SPATE_CO_TRY(const std::uint64_t copied, co_await copy_now(source, span));
  if (!params.from) source.position_->store(span.from + copied);
  if (!params.to) position_->store(span.to + copied);
  co_return copied;
}

}  // namespace spate::posix
