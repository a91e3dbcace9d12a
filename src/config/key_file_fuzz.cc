// SPDX-License-Identifier: Apache-2.0
// Fuzzer: a key file of any bytes: refused, or a key whose file reads as the same key.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "config/key_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spate;
  const auto key = config::parse_key_file({reinterpret_cast<const char*>(data), size}, "/k");
  if (!key) {
    SPATE_CHECK(key.code() == Errc::kInvalidArgument);
    return 0;
  }
  const std::string text = config::key_file_text(*key);
  const auto again = config::parse_key_file(text, "/k");
  SPATE_CHECK(again && *again == *key);
  return 0;
}
