// SPDX-License-Identifier: Apache-2.0
// Fuzzer: a snapshot of any bytes is refused, or it encodes to the same bytes, and can be merged with itself and
// printed.
#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "metrics/snapshot.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using spate::metrics::Snapshot;
  const spate::ByteView bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto decoded = Snapshot::decode(bytes);
  if (!decoded) return 0;
  spate::Bytes again;
  decoded->encode(again);
  SPATE_CHECK(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
  Snapshot twice = *decoded;
  SPATE_CHECK(twice.merge(*decoded).has_value());
  SPATE_CHECK(twice.samples().size() == decoded->samples().size());
  (void)twice.prometheus();
  return 0;
}
