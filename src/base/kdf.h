// SPDX-License-Identifier: Apache-2.0
// SHA-256, HMAC-SHA-256 and HKDF. The handshake derives its keys with them (docs/wire.md, "Handshake").
#pragma once

#include <array>
#include <initializer_list>

#include "base/bytes.h"
#include "base/checksum.h"

namespace spate {

/// A SHA-256 or an HMAC-SHA-256 of full length.
using Hash = std::array<std::byte, 32>;

/// Hashes the parts, one after the other. Thread-safe.
Hash sha256(std::initializer_list<ByteView> parts);
/// Yields all 32 bytes of the code, whereas hmac() cuts it to 16 bytes. Thread-safe.
Hash hmac256(const Key& key, std::initializer_list<ByteView> parts);

/// HKDF-Extract: a key from a secret that need not be uniform. Source: RFC 5869, sec. 2.2.
Key hkdf_extract(ByteView salt, ByteView secret);
/// HKDF-Expand: fills `out` (at most 8160 bytes) from `key`; another `info` gives independent bytes. Source: RFC 5869,
/// sec. 2.3.
void hkdf_expand(const Key& key, ByteView info, MutableByteView out);

}  // namespace spate
