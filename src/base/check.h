// SPDX-License-Identifier: Apache-2.0
// SPATE_CHECK: an assertion against our own bugs, on in every build. Never for data from outside.
#pragma once

namespace spate {

/// Writes "file:line: check failed: expression" to standard error and aborts.
[[noreturn]] void check_failed(const char* expression, const char* file, int line);

}  // namespace spate

#define SPATE_CHECK(condition) \
  (static_cast<bool>(condition) ? void(0) : ::spate::check_failed(#condition, __builtin_FILE(), __builtin_LINE()))
