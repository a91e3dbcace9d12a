// SPDX-License-Identifier: Apache-2.0
// LockHolder: an owner of locks within a client.
#pragma once

#include <compare>
#include <cstdint>

#include "model/lock_ranges.h"

namespace spate::client {

/// The kind and number of an owner.
struct LockHolder {
  LockKind kind = LockKind::kProcess;
  std::uint64_t number = 0;
  friend auto operator<=>(const LockHolder&, const LockHolder&) = default;
};

}  // namespace spate::client
