// SPDX-License-Identifier: Apache-2.0
// Batch: the writes of one commit.
#pragma once

#include <optional>
#include <vector>

#include "base/bytes.h"
#include "trove/write_set.h"

namespace spate::trove {

/// A key's new value. No value: the commit erases the key.
struct BatchWrite {
  Bytes key;
  std::optional<Bytes> value;
};

/// The writes are in key order, and each key appears once.
using Batch = std::vector<BatchWrite>;

inline Batch batch_of(const WriteSet& writes) {
  Batch batch;
  batch.reserve(writes.size());
  for (const auto& [key, write] : writes) {
    batch.push_back({to_bytes(key), write.erased ? std::nullopt : std::optional(to_bytes(write.value))});
  }
  return batch;
}

}  // namespace spate::trove
