// SPDX-License-Identifier: Apache-2.0
#include "base/checksum.h"

#include <isa-l/crc.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <xxhash.h>

#include <algorithm>

#include "base/check.h"

namespace spate {

std::uint32_t crc32c(ByteView bytes, std::uint32_t seed) {
  // ISA-L takes a non-const pointer and an int length; it reads only. Its crc has no final inversion: add both.
  std::uint32_t crc = ~seed;
  while (!bytes.empty()) {
    const std::size_t n = std::min<std::size_t>(bytes.size(), 1U << 30U);
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
    crc = crc32_iscsi(data, static_cast<int>(n), crc);
    bytes = bytes.subspan(n);
  }
  return ~crc;
}

std::uint64_t hash64(ByteView bytes, std::uint64_t seed) { return XXH64(bytes.data(), bytes.size(), seed); }

Mac hmac(const Key& key, ByteView message) {
  static_assert(sizeof(Mac) <= SHA256_DIGEST_SIZE);
  hmac_sha256_ctx state;
  hmac_sha256_set_key(&state, key.size(), reinterpret_cast<const std::uint8_t*>(key.data()));
  hmac_sha256_update(&state, message.size(), reinterpret_cast<const std::uint8_t*>(message.data()));
  Mac mac{};
  hmac_sha256_digest(&state, mac.size(), reinterpret_cast<std::uint8_t*>(mac.data()));
  return mac;
}

bool equal_secret(ByteView a, ByteView b) {
  return a.size() == b.size() && memeql_sec(a.data(), b.data(), a.size()) != 0;
}

}  // namespace spate
