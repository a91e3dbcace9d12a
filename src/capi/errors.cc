// SPDX-License-Identifier: Apache-2.0
// Errors of the C functions: a negative errno, and a message for each thread.
#include <cerrno>
#include <string>

#include "capi/handles.h"
#include "posix/errno.h"

namespace spate::capi {
namespace {

std::string& last_error() {
  thread_local std::string sentence;
  return sentence;
}

}  // namespace

int refuse(const Error& error) noexcept {
  try {
    last_error() = error.message();
  } catch (const std::bad_alloc&) {
    last_error().clear();
  }
  return -posix::to_errno(error.code());
}

std::int64_t conclude(const Outcome& outcome, std::string_view name) noexcept {
  if (outcome) return *outcome;
  if (name.empty() || outcome.error().context().find(name) != std::string::npos) return refuse(outcome.error());
  try {
    return refuse(Error(outcome.error()).within(name));
  } catch (const std::bad_alloc&) {
    return refuse(outcome.error());
  }
}

int refuse_argument(const char* sentence) noexcept { return refuse(Error(Errc::kInvalidArgument, sentence)); }

int refuse_null(const char* what) noexcept {
  std::ignore = refuse_argument(what);
  return -EFAULT;
}

}  // namespace spate::capi

extern "C" {

const char* spate_last_error(void) { return spate::capi::last_error().c_str(); }
const char* spate_version(void) { return SPATE_VERSION; }

}  // extern "C"
