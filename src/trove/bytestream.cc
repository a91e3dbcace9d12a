// SPDX-License-Identifier: Apache-2.0
#include "trove/bytestream.h"

namespace spate::trove {

Result<void> Bytestreams::try_device_memory(MutableByteView /*memory*/) {
  return Error(Errc::kNotSupported, direct().refusal);
}

Result<void> Bytestreams::register_memory(MutableByteView /*memory*/) {
  return Error(Errc::kNotSupported, "this target's storage registers no memory");
}

Result<std::unique_ptr<LeasePage>> Bytestreams::make_lease(const LeaseTitle& /*title*/) {
  return Error(Errc::kNotSupported, "this target's storage has no files to be passed on");
}

Result<std::vector<std::unique_ptr<LeasePage>>> Bytestreams::left_leases() {
  return std::vector<std::unique_ptr<LeasePage>>();
}

}  // namespace spate::trove
