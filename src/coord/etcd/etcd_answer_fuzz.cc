// SPDX-License-Identifier: Apache-2.0
// Fuzzer: answers of etcd from any bytes.
#include <cstddef>
#include <cstdint>

#include "coord/etcd/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spate;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  std::ignore = coord::range_answer("/spate/", body);
  std::ignore = coord::txn_answer(body);
  std::ignore = coord::members_answer(body);
  std::ignore = coord::status_answer(body);
  std::ignore = coord::error_text(body);
  return 0;
}
