// SPDX-License-Identifier: Apache-2.0
// An in-memory Keyval: for tests, and for measuring what stands above it.
#pragma once

#include <memory>

#include "trove/keyval.h"

namespace spate::trove {

struct MemoryKeyvalOptions {
  std::size_t conflict_window_bytes = std::size_t{4} << 20;
};

/// Every operation completes at its post. Both durabilities are alike: nothing survives the object.
std::unique_ptr<Keyval> make_memory_keyval(MemoryKeyvalOptions options = {});

}  // namespace spate::trove
