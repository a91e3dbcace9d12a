// SPDX-License-Identifier: Apache-2.0
#include "base/kdf.h"

#include <nettle/hkdf.h>
#include <nettle/hmac.h>
#include <nettle/sha2.h>

#undef hkdf_extract  // Nettle renames its functions by macros
#undef hkdf_expand

namespace spate {
namespace {

const std::uint8_t* raw(ByteView view) { return reinterpret_cast<const std::uint8_t*>(view.data()); }
std::uint8_t* raw(MutableByteView view) { return reinterpret_cast<std::uint8_t*>(view.data()); }

hmac_sha256_ctx keyed(ByteView key) {
  hmac_sha256_ctx state;
  hmac_sha256_set_key(&state, key.size(), raw(key));
  return state;
}

}  // namespace

Hash sha256(std::initializer_list<ByteView> parts) {
  sha256_ctx state;
  sha256_init(&state);
  for (const ByteView part : parts) sha256_update(&state, part.size(), raw(part));
  Hash hash{};
  sha256_digest(&state, hash.size(), raw(MutableByteView(hash)));
  return hash;
}

Hash hmac256(const Key& key, std::initializer_list<ByteView> parts) {
  hmac_sha256_ctx state = keyed(key);
  for (const ByteView part : parts) hmac_sha256_update(&state, part.size(), raw(part));
  Hash hash{};
  hmac_sha256_digest(&state, hash.size(), raw(MutableByteView(hash)));
  return hash;
}

Key hkdf_extract(ByteView salt, ByteView secret) {
  hmac_sha256_ctx state = keyed(salt);
  Key key{};
  nettle_hkdf_extract(&state, reinterpret_cast<nettle_hash_update_func*>(hmac_sha256_update),
                      reinterpret_cast<nettle_hash_digest_func*>(hmac_sha256_digest), key.size(), secret.size(),
                      raw(secret), raw(MutableByteView(key)));
  return key;
}

void hkdf_expand(const Key& key, ByteView info, MutableByteView out) {
  hmac_sha256_ctx state = keyed(key);
  nettle_hkdf_expand(&state, reinterpret_cast<nettle_hash_update_func*>(hmac_sha256_update),
                     reinterpret_cast<nettle_hash_digest_func*>(hmac_sha256_digest), SHA256_DIGEST_SIZE, info.size(),
                     raw(info), out.size(), raw(out));
}

}  // namespace spate
