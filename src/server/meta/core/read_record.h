// SPDX-License-Identifier: Apache-2.0
// read_record(): a record of the store; and how deep a directory can be.
#pragma once

#include <optional>

#include "job/storage.h"
#include "server/meta/store/keys.h"
#include "server/meta/store/records.h"

namespace spate::meta {

/// No real directory is this deep: a longer chain of parents is a loop.
inline constexpr std::size_t kDeepest = 1U << 20U;

/// The record under `key`, if there is one. kCorrupt and kFormatTooNew name the record.
template <typename Record>
job::Task<Result<std::optional<Record>>> read_record(job::Transaction& store, StoreKey key, trove::ReadMode mode) {
  auto read = co_await store.get(key, mode);
  if (read.status != Errc::kOk) co_return read.status;
  if (!read.value) co_return std::optional<Record>();
  SPATE_CO_TRY(auto record, decode_record<Record>(*read.value));
  co_return std::optional<Record>(std::move(record));
}

}  // namespace spate::meta
