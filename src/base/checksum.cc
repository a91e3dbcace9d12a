// SPDX-License-Identifier: Apache-2.0
#include "base/checksum.h"

#include <isa-l/crc.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
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
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const auto* in = reinterpret_cast<const unsigned char*>(message.data());
  SPATE_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), in, message.size(), digest, &size) !=
              nullptr);
  Mac mac{};
  std::copy_n(reinterpret_cast<const std::byte*>(digest), mac.size(), mac.begin());
  return mac;
}

bool equal_secret(ByteView a, ByteView b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace spate
