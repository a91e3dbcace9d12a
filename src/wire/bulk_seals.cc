// SPDX-License-Identifier: Apache-2.0
#include "wire/bulk_seals.h"

#include "base/checksum.h"

namespace spate::wire {

bool BulkSeals::genuine(std::uint64_t tag, std::uint64_t unit, std::span<const ByteView> data, const Code& code) {
  return equal_secret(in_.code(tag, unit, data), code);
}

Error altered_bulk_message() {
  return {Errc::kCorrupt, "file data were altered on the way: somebody, or something broken, is on the network path"};
}

}  // namespace spate::wire
