// SPDX-License-Identifier: Apache-2.0
#include "bmi/ofi/packet.h"

#include <optional>

#include "base/expect.h"
#include "base/random.h"

namespace spate::bmi::ofi {
namespace {

PacketHeader some_header() {
  PacketHeader header;
  header.type = FrameType::kAnnounce;
  header.message_class = MessageClass::kBulk;
  header.flags = kFlagLocated;
  header.session = 0x0102030405060708;
  header.credit = {7, 0xFFFFFFFF};
  header.tag = 0xAABBCCDDEEFF0011;
  header.length = kMaxLength;
  header.id = 3;
  return header;
}

Bytes packet_of(const PacketHeader& header, std::size_t payload) {
  Bytes bytes(kHeaderSize + payload, std::byte{0x5A});
  encode(header, payload, bytes.data());
  return bytes;
}

TEST(OfiPacket, EncodingAndDecodingGiveTheSamePacket) {
  const Bytes bytes = packet_of(some_header(), 10);
  const std::optional<Packet> packet = decode_packet(bytes);
  ASSERT_NE(packet, std::nullopt);
  EXPECT_EQ(packet->header, some_header());
  EXPECT_EQ(packet->payload.size(), 10U);
}

TEST(OfiPacket, HasTheDocumentedBytes) {  // docs/wire-ofi.md, "Packets"
  const Bytes bytes = packet_of(some_header(), 1);
  EXPECT_EQ(bytes[0], std::byte{0xF5});
  EXPECT_EQ(bytes[1], std::byte{7});
  EXPECT_EQ(bytes[2], std::byte{1});
  EXPECT_EQ(bytes[3], std::byte{2});
  EXPECT_EQ(bytes[4], std::byte{1});
  EXPECT_EQ(bytes[8], std::byte{8});
  EXPECT_EQ(bytes[16], std::byte{7});
  EXPECT_EQ(bytes[20], std::byte{0xFF});
  EXPECT_EQ(bytes[24], std::byte{0x11});
  EXPECT_EQ(bytes[39], std::byte{0x40});
  EXPECT_EQ(bytes[40], std::byte{3});
}

TEST(OfiPacket, EveryTruncationIsRefused) {
  const Bytes bytes = packet_of(some_header(), 10);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_EQ(decode_packet({bytes.data(), size}), std::nullopt) << size;
}

TEST(OfiPacket, InvalidPacketsAreRefused) {
  const auto with = [](std::size_t at, std::uint8_t value) {
    Bytes bytes = packet_of(some_header(), 0);
    bytes[at] = std::byte{value};
    return decode_packet(bytes).has_value();
  };
  EXPECT_FALSE(with(0, 0xF4)) << "magic";
  EXPECT_FALSE(with(1, 0)) << "type";
  EXPECT_FALSE(with(1, 19)) << "a type of a later version";
  EXPECT_FALSE(with(2, 2)) << "class";
  EXPECT_FALSE(with(3, 4)) << "flags";
  EXPECT_FALSE(with(4, 1)) << "payload that is not there";
  EXPECT_FALSE(with(39, 0x41)) << "length beyond the largest";
}

TEST(OfiExtents, EncodingAndDecodingGiveTheSameExtents) {
  const std::vector<Extent> extents{{1, 0x1000, 10}, {0xFFFFFFFFFFFFFFFF, 0, 90}};
  Bytes bytes;
  encode(extents, bytes);
  EXPECT_EQ(decode_extents(bytes, 100), extents);
}

TEST(OfiExtents, ExtentsThatDoNotAddUpAreRefused) {
  const auto good = [](std::vector<Extent> extents, std::uint64_t length) {
    Bytes bytes;
    encode(extents, bytes);
    return decode_extents(bytes, length).has_value();
  };
  EXPECT_TRUE(good({{1, 0, 10}}, 10)) << "one extent";
  EXPECT_FALSE(good({{1, 0, 10}}, 11)) << "a byte is missing";
  EXPECT_FALSE(good({{1, 0, 10}}, 9)) << "a byte too many";
  EXPECT_FALSE(good({}, 0)) << "no extent";
  EXPECT_FALSE(good({{1, 0, 10}, {1, 0, 0}}, 10)) << "an empty one";
  EXPECT_FALSE(good({{1, UINT64_MAX, 10}}, 10)) << "around the end";
  EXPECT_FALSE(good({{1, 0, UINT64_MAX}, {1, 0, 11}}, 10)) << "a sum that wraps";
  EXPECT_FALSE(good(std::vector<Extent>(kMaxExtents + 1, Extent{1, 0, 1}), kMaxExtents + 1)) << "too many";
  Bytes odd(kExtentSize + 1);
  EXPECT_EQ(decode_extents(odd, 1), std::nullopt);
}

Hello some_hello() {
  Hello hello;
  hello.pid = 4711;
  hello.link.fill(std::byte{9});
  hello.session = 5;
  hello.limits = {1 << 20, 1 << 18, 100, 4096};
  hello.address = Bytes(16, std::byte{2});
  return hello;
}

TEST(OfiHello, EncodingAndDecodingGiveTheSameHello) {
  EXPECT_EQ(decode_hello(encode(some_hello())), some_hello());
  Bytes longer = encode(some_hello());
  longer.push_back(std::byte{1});  // a field that a later version might add
  EXPECT_EQ(decode_hello(longer), some_hello());
}

TEST(OfiHello, EveryTruncationIsRefused) {
  const Bytes bytes = encode(some_hello());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_EQ(decode_hello({bytes.data(), size}), std::nullopt) << size;
}

TEST(OfiHello, OutOfRangeIsRefused) {
  const auto good = [](auto change) {
    Hello hello = some_hello();
    change(hello);
    return decode_hello(encode(hello)).has_value();
  };
  EXPECT_FALSE(good([](Hello& h) { h.session = 0; })) << "no session";
  EXPECT_FALSE(good([](Hello& h) { h.address.clear(); })) << "no address";
  EXPECT_FALSE(good([](Hello& h) { h.address.resize(kMaxAddress + 1); })) << "an address that is too long";
  EXPECT_FALSE(good([](Hello& h) { h.limits.max_packet = 1023; })) << "packets that are too small";
  EXPECT_FALSE(good([](Hello& h) { h.limits.window = (std::uint64_t{1} << 40U) + 1; }))
      << "a window that cannot be counted";
  EXPECT_FALSE(good([](Hello& h) { h.versions.min = 3; })) << "the newest version is older than the oldest";
  EXPECT_TRUE(good([](Hello& h) { h.versions.min = h.versions.max = 3; })) << "the module says that it speaks no 3";
}

TEST(OfiWelcome, EncodingAndDecodingGiveTheSameWelcome) {
  Welcome welcome;
  welcome.session = 77;
  welcome.limits = {1, 2, 3, 1024};
  EXPECT_EQ(decode_welcome(encode(welcome)), welcome);
  Welcome refusal;
  refusal.status = Errc::kVersionMismatch;
  EXPECT_EQ(decode_welcome(encode(refusal)), refusal);
  welcome.session = 0;
  EXPECT_EQ(decode_welcome(encode(welcome)), std::nullopt);
  welcome.session = 77;
  welcome.version = 2;
  EXPECT_EQ(decode_welcome(encode(welcome)), std::nullopt);
}

TEST(OfiHello, AnyBytesAreDecodedOrRefused) {
  SeededRandom random(1);
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes = i % 2 == 0 ? encode(some_hello()) : packet_of(some_header(), 8);
    for (int k = 0; k < 3; ++k) bytes[random.below(bytes.size())] = static_cast<std::byte>(random.next());
    if (const std::optional<Hello> hello = decode_hello(bytes)) {
      EXPECT_EQ(decode_hello(encode(*hello)), hello);
    }
    if (const std::optional<Packet> packet = decode_packet(bytes)) {
      EXPECT_EQ(packet_of(packet->header, packet->payload.size()).size(), bytes.size());
    }
  }
}

}  // namespace
}  // namespace spate::bmi::ofi
