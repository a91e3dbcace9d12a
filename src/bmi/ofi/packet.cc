// SPDX-License-Identifier: Apache-2.0
#include "bmi/ofi/packet.h"

#include <string_view>

#include "base/codec.h"

namespace spate::bmi::ofi {
namespace {

using protocol::get_limits;
using protocol::put_limits;

constexpr std::uint8_t kMagic = 0xF5;
constexpr std::string_view kHelloMagic = "SPATEofi";
constexpr std::string_view kWelcomeMagic = "spateOFI";
constexpr std::uint32_t kLeastPacket = 1024;

template <typename T>
std::byte* put(std::byte* out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out[i] = static_cast<std::byte>(value >> (8 * i));
  return out + sizeof(T);
}

}  // namespace

void encode(const PacketHeader& header, std::size_t payload, std::byte* out) {
  out[0] = std::byte{kMagic};
  out[1] = static_cast<std::byte>(header.type);
  out[2] = static_cast<std::byte>(header.message_class);
  out[3] = std::byte{header.flags};
  out = put<std::uint32_t>(out + 4, static_cast<std::uint32_t>(payload));
  out = put<std::uint64_t>(out, header.session);
  for (const std::uint32_t credit : header.credit) out = put<std::uint32_t>(out, credit);
  out = put<std::uint64_t>(out, header.tag);
  out = put<std::uint64_t>(out, header.length);
  put<std::uint64_t>(out, header.id);
}

std::optional<Packet> decode_packet(ByteView bytes) {
  Decoder in(bytes);
  Packet packet;
  PacketHeader& header = packet.header;
  const std::uint8_t magic = in.u8();
  const std::uint8_t type = in.u8();
  const std::uint8_t message_class = in.u8();
  header.flags = in.u8();
  const std::uint32_t payload = in.u32();
  header.session = in.u64();
  for (std::uint32_t& credit : header.credit) credit = in.u32();
  header.tag = in.u64();
  header.length = in.u64();
  header.id = in.u64();
  const bool good = in.ok() && magic == kMagic && type >= 1 && type <= static_cast<std::uint8_t>(kLastFrameType) &&
                    message_class < kClasses && header.flags <= (kFlagTooBig | kFlagLocated) &&
                    header.length <= kMaxLength && payload == in.remaining();
  if (!good) return std::nullopt;
  header.type = static_cast<FrameType>(type);
  header.message_class = static_cast<MessageClass>(message_class);
  packet.payload = in.raw(payload);
  return packet;
}

void encode(std::span<const Extent> extents, Bytes& out) {
  Encoder encoder(out);
  for (const Extent& extent : extents) {
    encoder.u64(extent.key);
    encoder.u64(extent.address);
    encoder.u64(extent.size);
  }
}

std::optional<std::vector<Extent>> decode_extents(ByteView bytes, std::uint64_t length) {
  if (bytes.empty() || bytes.size() % kExtentSize != 0 || bytes.size() > kMaxExtents * kExtentSize) return std::nullopt;
  Decoder in(bytes);
  std::vector<Extent> extents(bytes.size() / kExtentSize);
  std::uint64_t total = 0;
  for (Extent& extent : extents) {
    extent.key = in.u64();
    extent.address = in.u64();
    extent.size = in.u64();
    if (extent.size == 0 || extent.size > length - total || extent.address + extent.size < extent.address) {
      return std::nullopt;
    }
    total += extent.size;
  }
  if (total != length) return std::nullopt;
  return extents;
}

Bytes encode(const Hello& hello) {
  Bytes bytes;
  Encoder out(bytes);
  protocol::put_hello_head(out, kHelloMagic, hello.versions);
  out.u32(hello.pid);
  out.raw(hello.link);
  out.u64(hello.session);
  put_limits(out, hello.limits);
  out.blob(hello.address);
  return bytes;
}

Bytes encode(const Welcome& welcome) {
  Bytes bytes;
  Encoder out(bytes);
  protocol::put_welcome_head(out, kWelcomeMagic, {welcome.status, welcome.version});
  out.u32(welcome.pid);
  out.u64(welcome.session);
  put_limits(out, welcome.limits);
  return bytes;
}

std::optional<Hello> decode_hello(ByteView bytes) {
  Decoder in(bytes);
  const auto versions = protocol::get_hello_head(in, kHelloMagic);
  if (!versions) return std::nullopt;
  Hello hello;
  hello.versions = *versions;
  hello.pid = in.u32();
  const ByteView link = in.raw(hello.link.size());
  if (!in.ok()) return std::nullopt;
  std::ranges::copy(link, hello.link.begin());
  hello.session = in.u64();
  hello.limits = get_limits(in);
  hello.address = to_bytes(in.blob(kMaxAddress));
  const bool good = in.ok() && hello.session != 0 && !hello.address.empty() && hello.limits.max_packet >= kLeastPacket;
  return good ? std::optional(std::move(hello)) : std::nullopt;
}

std::optional<Welcome> decode_welcome(ByteView bytes) {
  Decoder in(bytes);
  const auto head = protocol::get_welcome_head(in, kWelcomeMagic);
  if (!head) return std::nullopt;
  Welcome welcome;
  welcome.status = head->status;
  welcome.version = head->version;
  welcome.pid = in.u32();
  welcome.session = in.u64();
  welcome.limits = get_limits(in);
  if (!in.ok()) return std::nullopt;
  if (welcome.status != Errc::kOk) return welcome;
  const bool good = kVersions.has(welcome.version) && welcome.session != 0 && welcome.limits.max_packet >= kLeastPacket;
  return good ? std::optional(welcome) : std::nullopt;
}

}  // namespace spate::bmi::ofi
