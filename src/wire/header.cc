// SPDX-License-Identifier: Apache-2.0
#include "wire/header.h"

#include <utility>

namespace spate::wire {

std::string context_of(const Error& error) {
  if (error.code() == Errc::kCrossDevice || error.context().empty()) return error.context();
  return error.message();
}

Error error_of(Errc status, std::string context) {
  if (status == Errc::kCrossDevice || context.empty()) return {status, std::move(context)};
  return Error::told(status, std::move(context));
}

}  // namespace spate::wire
