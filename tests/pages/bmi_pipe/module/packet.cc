// SPDX-License-Identifier: Apache-2.0
#include "bmi/pipe/packet.h"

#include <algorithm>

#include "base/codec.h"

namespace spate::bmi::pipe {
namespace {

constexpr std::uint32_t kMagic = 0x45504950;  // "PIPE"
constexpr std::uint32_t kVersion = 1;

}  // namespace

Bytes encode(const Hello& hello) {
  Bytes bytes;
  Encoder out(bytes);
  out.u32(kMagic);
  out.u32(kVersion);
  out.raw(hello.link);
  put_limits(out, hello.limits);
  return bytes;
}

std::optional<Hello> decode_hello(ByteView packet) {
  Decoder in(packet);
  Hello hello;
  if (in.u32() != kMagic || in.u32() != kVersion) return std::nullopt;
  std::ranges::copy(in.raw(hello.link.size()), hello.link.begin());
  hello.limits = protocol::get_limits(in);
  if (!in.finish("hello")) return std::nullopt;
  return hello;
}

Bytes encode(const Frame& frame) {
  Bytes bytes;
  bytes.reserve(kHeaderSize);
  Encoder out(bytes);
  out.u8(static_cast<std::uint8_t>(frame.header.type));
  out.u8(static_cast<std::uint8_t>(frame.header.message_class));
  out.u8(frame.header.flags);
  out.u8(0);
  for (const std::uint32_t credit : frame.credit) out.u32(credit);
  out.u64(frame.header.tag);
  out.u64(frame.header.length);
  out.u64(frame.header.id);
  return bytes;
}

std::optional<Frame> decode_frame(ByteView packet) {
  Decoder in(packet);
  Frame frame;
  frame.header.type = protocol::FrameType(in.u8());
  const std::uint8_t message_class = in.u8();
  frame.header.message_class = MessageClass(message_class);
  frame.header.flags = in.u8();
  (void)in.u8();
  for (std::uint32_t& credit : frame.credit) credit = in.u32();
  frame.header.tag = in.u64();
  frame.header.length = in.u64();
  frame.header.id = in.u64();
  if (!in.ok() || message_class >= kClasses || frame.header.length > protocol::kMaxLength) return std::nullopt;
  return frame;
}

}  // namespace spate::bmi::pipe
