// SPDX-License-Identifier: Apache-2.0
// LockHolder: one of a client's owners of locks.
#pragma once

#include <compare>
#include <cstdint>

#include "model/lock_ranges.h"

namespace spate::client {

/// One of a client's owners: kind and number.
struct LockHolder {
  LockKind kind = LockKind::kProcess;
  std::uint64_t number = 0;
  friend auto operator<=>(const LockHolder&, const LockHolder&) = default;
};

}  // namespace spate::client
