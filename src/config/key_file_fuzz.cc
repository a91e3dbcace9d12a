// SPDX-License-Identifier: Apache-2.0
// Fuzzer: a key file of any bytes. It is refused, or yields a key whose own file yields the same key; so does the file
// of a user's key.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "config/key_file.h"

namespace {

void check_client_key(std::string_view text) {
  using namespace spate;
  const auto key = config::parse_client_key(text, "/k");
  SPATE_CHECK(key || key.code() == Errc::kInvalidArgument);
  if (!key || !key->is_users()) return;
  const auto again = config::parse_client_key(config::user_key_text(*key), "/k");
  SPATE_CHECK(again && *again == *key);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spate;
  check_client_key({reinterpret_cast<const char*>(data), size});
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
