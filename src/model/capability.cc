// SPDX-License-Identifier: Apache-2.0
#include "model/capability.h"

#include <algorithm>

namespace spate {
namespace {

// The first byte separates the kinds: a ticket can never be replayed as a capability.
constexpr std::uint8_t kCapabilityKind = 1;
constexpr std::uint8_t kTicketKind = 2;

template <typename Signed>
bool signed_by_any(const KeyRing& keys, FsId fs, const Signed& item) {
  if (equal_secret(sign(keys.used, fs, item), item.mac)) return true;
  return std::any_of(keys.others.begin(), keys.others.end(),
                     [&](const Key& key) { return equal_secret(sign(key, fs, item), item.mac); });
}

}  // namespace

Mac sign(const Key& server_key, FsId fs, const Capability& c) {
  Bytes message;
  Encoder out(message);
  out.u8(kCapabilityKind);
  out.u64(fs.value);
  out.u64(c.handle.value);
  out.u8(static_cast<std::uint8_t>(c.rights));
  out.u32(c.layout_generation);
  out.u64(c.client.value);
  out.u32(c.session_epoch);
  out.u32(c.uid);
  out.u32(c.gid);
  out.u32(c.project);
  out.i64(c.expiry.ns);
  return hmac(server_key, message);
}

Mac sign(const Key& server_key, FsId fs, const SessionTicket& t) {
  Bytes message;
  Encoder out(message);
  out.u8(kTicketKind);
  out.u64(fs.value);
  out.u64(t.client.value);
  out.u32(t.epoch);
  out.u32(t.uid);
  out.u32(t.gid);
  out.i64(t.expiry.ns);
  return hmac(server_key, message);
}

bool verify(const KeyRing& server_keys, FsId fs, const Capability& c) { return signed_by_any(server_keys, fs, c); }
bool verify(const KeyRing& server_keys, FsId fs, const SessionTicket& t) { return signed_by_any(server_keys, fs, t); }

}  // namespace spate
