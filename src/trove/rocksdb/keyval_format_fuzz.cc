// SPDX-License-Identifier: Apache-2.0
// Fuzzer: checks a format record of any bytes. Only the one that this build writes is accepted.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "trove/rocksdb/format.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spate;
  const ByteView record(reinterpret_cast<const std::byte*>(data), size);
  const auto checked = trove::check_format_record(record, "/f");
  SPATE_CHECK(checked.has_value() == std::ranges::equal(record, trove::format_record()));
  SPATE_CHECK(checked || checked.code() == Errc::kCorrupt || checked.code() == Errc::kFormatTooNew);
  return 0;
}
