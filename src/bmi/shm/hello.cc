// SPDX-License-Identifier: Apache-2.0
#include "bmi/shm/hello.h"

#include <algorithm>
#include <string_view>

#include "base/check.h"
#include "base/codec.h"

namespace spate::bmi::shm {
namespace {

using protocol::get_limits;
using protocol::put_limits;

constexpr std::string_view kHelloMagic = "SPATEshm";
constexpr std::string_view kWelcomeMagic = "spateSHM";
constexpr std::size_t kSteadySize = 16;  // bytes of both messages that are the same in every version

}  // namespace

Bytes encode(const Hello& hello) {
  Bytes bytes;
  Encoder out(bytes);
  protocol::put_hello_head(out, kHelloMagic, hello.versions);
  out.u32(0);
  out.raw(hello.link);
  put_limits(out, hello.limits);
  out.u64(0);
  SPATE_CHECK(bytes.size() == kHelloSize);
  return bytes;
}

Bytes encode(const Welcome& welcome) {
  Bytes bytes;
  Encoder out(bytes);
  protocol::put_welcome_head(out, kWelcomeMagic, {welcome.status, welcome.version});
  out.u8(static_cast<std::uint8_t>(welcome.policy));
  out.u8(0);
  out.u16(0);
  put_limits(out, welcome.limits);
  for (const LaneSize& lane : welcome.geometry.lanes) out.u32(lane.slots);
  for (const LaneSize& lane : welcome.geometry.lanes) out.u64(lane.bytes);
  SPATE_CHECK(bytes.size() == kWelcomeSize);
  return bytes;
}

std::array<std::byte, kNoteSize> encode(const Note& note) {
  Bytes bytes;
  Encoder out(bytes);
  out.u32(static_cast<std::uint32_t>(note.kind));
  out.u32(note.number);
  out.u64(note.value);
  std::array<std::byte, kNoteSize> fixed{};
  std::ranges::copy(bytes, fixed.begin());
  return fixed;
}

std::optional<Hello> decode_hello(ByteView bytes) {
  if (bytes.size() < kSteadySize) return std::nullopt;
  Decoder in(bytes);
  const auto versions = protocol::get_hello_head(in, kHelloMagic);
  if (!versions) return std::nullopt;
  Hello hello;
  hello.versions = *versions;
  // The other fields may mean anything in that version.
  if (!hello.versions.meets(kVersions)) return hello;
  if (bytes.size() != kHelloSize) return std::nullopt;
  (void)in.u32();
  std::ranges::copy(in.raw(hello.link.size()), hello.link.begin());
  hello.limits = get_limits(in);
  return in.ok() ? std::optional(hello) : std::nullopt;
}

std::optional<Welcome> decode_welcome(ByteView bytes) {
  if (bytes.size() < kSteadySize) return std::nullopt;
  Decoder in(bytes);
  const auto head = protocol::get_welcome_head(in, kWelcomeMagic);
  if (!head) return std::nullopt;
  Welcome welcome;
  welcome.status = head->status;
  welcome.version = head->version;
  const std::uint8_t policy = in.u8();
  if (policy > static_cast<std::uint8_t>(AccessPolicy::Kind::kList)) return std::nullopt;
  welcome.policy = static_cast<AccessPolicy::Kind>(policy);
  if (welcome.status != Errc::kOk) return welcome;
  if (bytes.size() != kWelcomeSize) return std::nullopt;
  (void)in.u8();
  (void)in.u16();
  welcome.limits = get_limits(in);
  for (LaneSize& lane : welcome.geometry.lanes) lane.slots = in.u32();
  for (LaneSize& lane : welcome.geometry.lanes) lane.bytes = in.u64();
  const bool good = in.ok() && kVersions.has(welcome.version) && is_valid(welcome.geometry);
  return good ? std::optional(welcome) : std::nullopt;
}

std::optional<Note> decode_note(ByteView bytes) {
  if (bytes.size() != kNoteSize) return std::nullopt;
  Decoder in(bytes);
  const std::uint32_t kind = in.u32();
  Note note;
  note.number = in.u32();
  note.value = in.u64();
  if (kind < 1 || kind > static_cast<std::uint32_t>(Note::Kind::kLanes)) return std::nullopt;
  note.kind = static_cast<Note::Kind>(kind);
  return note;
}

}  // namespace spate::bmi::shm
