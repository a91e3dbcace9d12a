// SPDX-License-Identifier: Apache-2.0
#include "model/capability.h"

namespace spate {
namespace {

// The first byte separates the kinds: a ticket can never be replayed as a capability.
constexpr std::uint8_t kCapabilityKind = 1;
constexpr std::uint8_t kTicketKind = 2;

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

bool verify(const Key& server_key, FsId fs, const Capability& c) {
  return equal_secret(sign(server_key, fs, c), c.mac);
}
bool verify(const Key& server_key, FsId fs, const SessionTicket& t) {
  return equal_secret(sign(server_key, fs, t), t.mac);
}

}  // namespace spate
