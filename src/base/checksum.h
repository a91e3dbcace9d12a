// SPDX-License-Identifier: Apache-2.0
// Checksums, the stored hash of names, and message authentication codes.
#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"

namespace spate {

/// CRC-32C (Castagnoli) of `bytes`, continuing from `seed` (0 to begin). By ISA-L.
std::uint32_t crc32c(ByteView bytes, std::uint32_t seed = 0);

/// XXH64. Stable: its values are stored on disk (directory order) and may be sent.
std::uint64_t hash64(ByteView bytes, std::uint64_t seed = 0);

using Key = std::array<std::byte, 32>;
using Mac = std::array<std::byte, 16>;

/// HMAC-SHA-256 under `key`, cut to 16 bytes. Thread-safe.
Mac hmac(const Key& key, ByteView message);

/// Compares in constant time.
bool equal_secret(ByteView a, ByteView b);

}  // namespace spate
