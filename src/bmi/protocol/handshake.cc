// SPDX-License-Identifier: Apache-2.0
#include "bmi/protocol/handshake.h"

namespace spate::bmi::protocol {

void put_hello_head(Encoder& out, std::string_view magic, const Versions& versions) {
  out.raw(as_bytes(magic));
  out.u16(versions.min);
  out.u16(versions.max);
}

std::optional<Versions> get_hello_head(Decoder& in, std::string_view magic) {
  if (as_text(in.raw(magic.size())) != magic) return std::nullopt;
  Versions versions;
  versions.min = in.u16();
  versions.max = in.u16();
  return in.ok() && versions.min <= versions.max ? std::optional(versions) : std::nullopt;
}

void put_welcome_head(Encoder& out, std::string_view magic, const WelcomeHead& head) {
  out.raw(as_bytes(magic));
  out.u16(static_cast<std::uint16_t>(head.status));
  out.u16(head.version);
}

std::optional<WelcomeHead> get_welcome_head(Decoder& in, std::string_view magic) {
  if (as_text(in.raw(magic.size())) != magic) return std::nullopt;
  WelcomeHead head;
  head.status = errc_from_wire(in.u16());
  head.version = in.u16();
  return in.ok() ? std::optional(head) : std::nullopt;
}

}  // namespace spate::bmi::protocol
