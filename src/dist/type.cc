// SPDX-License-Identifier: Apache-2.0
#include "dist/type.h"

namespace spate {

Error bad_parameters(std::string_view name, std::string_view why) {
  return Error(Errc::kInvalidArgument, std::string(name) + ": " + std::string(why));
}

Result<Bytes> without_parameters(const DistributionType& type, std::string_view text) {
  if (!text.empty()) return bad_parameters(type.name(), "it takes no parameters");
  return Bytes();
}

Result<std::string> without_parameters(const DistributionType& type, ByteView parameters) {
  if (!parameters.empty()) return bad_parameters(type.name(), "it takes no parameters");
  return std::string();
}

}  // namespace spate
