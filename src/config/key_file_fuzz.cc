// SPDX-License-Identifier: Apache-2.0
// Fuzzer: a key file of any bytes. It is refused, or yields a key whose own file yields the same key.
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
  std::string text = config::key_file_text(key->used);
  for (const Key& other : key->others) text += config::key_file_text(other);
  const auto again = config::parse_key_file(text, "/k");
  SPATE_CHECK(again && again->used == key->used && again->others == key->others);
  return 0;
}
