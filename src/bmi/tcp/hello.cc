// SPDX-License-Identifier: Apache-2.0
#include "bmi/tcp/hello.h"

#include <algorithm>
#include <string_view>

#include "base/check.h"
#include "base/codec.h"
#include "base/kdf.h"

namespace spate::bmi::tcp {
namespace {

using protocol::get_limits;
using protocol::put_limits;

constexpr std::string_view kHelloMagic = "SPATEtcp";
constexpr std::string_view kWelcomeMagic = "spateTCP";

template <std::size_t kSize>
std::array<std::byte, kSize> fixed(const Bytes& bytes) {
  SPATE_CHECK(bytes.size() == kSize);
  std::array<std::byte, kSize> out{};
  std::ranges::copy(bytes, out.begin());
  return out;
}

}  // namespace

HelloBytes encode(const Hello& hello) {
  Bytes bytes;
  Encoder out(bytes);
  protocol::put_hello_head(out, kHelloMagic, hello.versions);
  out.u8(hello.channel);
  out.u8(hello.bulk_connections);
  out.u16(0);
  out.raw(hello.link);
  out.u64(hello.token);
  put_limits(out, hello.limits);
  return fixed<kHelloSize>(bytes);
}

WelcomeBytes encode(const Welcome& welcome) {
  Bytes bytes;
  Encoder out(bytes);
  protocol::put_welcome_head(out, kWelcomeMagic, {welcome.status, welcome.version});
  out.u32(0);
  out.u64(welcome.token);
  put_limits(out, welcome.limits);
  return fixed<kWelcomeSize>(bytes);
}

std::optional<Hello> decode_hello(const std::byte* bytes) {
  Decoder in(ByteView(bytes, kHelloSize));
  const auto versions = protocol::get_hello_head(in, kHelloMagic);
  if (!versions) return std::nullopt;
  Hello hello;
  hello.versions = *versions;
  // The other fields may mean anything in that version.
  if (!hello.versions.meets(kVersions)) return hello;
  hello.channel = in.u8();
  hello.bulk_connections = in.u8();
  (void)in.u16();
  std::ranges::copy(in.raw(hello.link.size()), hello.link.begin());
  hello.token = in.u64();
  hello.limits = get_limits(in);
  const bool good = in.ok() && hello.bulk_connections >= 1 && hello.bulk_connections <= kMaxBulkConnections &&
                    hello.channel <= hello.bulk_connections;
  return good ? std::optional(hello) : std::nullopt;
}

std::optional<Welcome> decode_welcome(const std::byte* bytes) {
  Decoder in(ByteView(bytes, kWelcomeSize));
  const auto head = protocol::get_welcome_head(in, kWelcomeMagic);
  if (!head) return std::nullopt;
  Welcome welcome;
  welcome.status = head->status;
  welcome.version = head->version;
  (void)in.u32();
  welcome.token = in.u64();
  welcome.limits = get_limits(in);
  const bool spoken = kVersions.has(welcome.version);
  if (!in.ok() || (welcome.status == Errc::kOk && !spoken)) return std::nullopt;
  return welcome;
}

bool is_tls(ByteView bytes) {
  constexpr std::byte kAlert{21};
  constexpr std::byte kHandshake{22};
  constexpr std::byte kMajorVersion{3};
  return bytes.size() >= 2 && (bytes[0] == kAlert || bytes[0] == kHandshake) && bytes[1] == kMajorVersion;
}

LinkProof link_proof(const Key& key, Side side, const HelloBytes& hello, const WelcomeBytes& welcome,
                     ByteView binding) {
  constexpr std::string_view kAcceptorLabel{"bulk acceptor", 14};  // with the zero that ends it
  constexpr std::string_view kConnectorLabel{"bulk connector", 15};
  const Hash whole =
      hmac256(key, {as_bytes(side == Side::kAcceptor ? kAcceptorLabel : kConnectorLabel), hello, welcome, binding});
  LinkProof proof{};
  std::copy_n(whole.begin(), proof.size(), proof.begin());
  return proof;
}

}  // namespace spate::bmi::tcp
