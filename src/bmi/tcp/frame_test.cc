// SPDX-License-Identifier: Apache-2.0
// Codecs of frames and of the handshake.
#include "bmi/tcp/frame.h"

#include <optional>

#include "base/expect.h"
#include "base/random.h"
#include "bmi/tcp/hello.h"

namespace spate::bmi::tcp {
namespace {

TEST(Frame, BytesAreAsDocumented) {
  FrameHeader header;
  header.type = FrameType::kClear;
  header.message_class = MessageClass::kBulk;
  header.flags = kFlagTooBig;
  header.credit = 0x01020304;
  header.tag = 0x1112131415161718;
  header.length = 0x2122232425262728;
  header.id = 0x3132333435363738;
  const HeaderBytes bytes = encode(header);
  const unsigned char expected[kHeaderSize] = {0xB5, 5,    1,    1,    0x04, 0x03, 0x02, 0x01, 0x18, 0x17, 0x16,
                                               0x15, 0x14, 0x13, 0x12, 0x11, 0x28, 0x27, 0x26, 0x25, 0x24, 0x23,
                                               0x22, 0x21, 0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31};
  for (std::size_t i = 0; i < kHeaderSize; ++i) EXPECT_EQ(std::to_integer<unsigned>(bytes[i]), expected[i]) << i;
  EXPECT_EQ(decode_frame(bytes.data()), header);
}

TEST(Frame, EveryTypeSurvives) {
  SeededRandom random(1);
  for (int type = 1; type <= 10; ++type) {
    FrameHeader header;
    header.type = type_of_number(static_cast<std::uint8_t>(type)).value();
    header.tag = random.next();
    header.length = random.next() >> 2U;
    header.id = random.next();
    header.credit = static_cast<std::uint32_t>(random.next());
    EXPECT_EQ(decode_frame(encode(header).data()), header);
  }
}

TEST(Frame, OnlyMessagesCarryPayload) {
  for (int type = 1; type <= 10; ++type) {
    FrameHeader header;
    header.type = type_of_number(static_cast<std::uint8_t>(type)).value();
    header.length = 7;
    const bool carries = header.type == FrameType::kEager || header.type == FrameType::kUnexpected ||
                         header.type == FrameType::kReady || header.type == FrameType::kData;
    EXPECT_EQ(header.payload(), carries ? 7U : 0U) << type;
  }
}

TEST(Frame, InvalidHeadersAreRefused) {
  const HeaderBytes good = encode(FrameHeader{});
  ASSERT_NE(decode_frame(good.data()), std::nullopt);
  const auto with = [&](std::size_t at, unsigned value) {
    HeaderBytes bytes = good;
    bytes[at] = static_cast<std::byte>(value);
    return decode_frame(bytes.data());
  };
  EXPECT_EQ(with(0, 0xB4), std::nullopt);  // magic
  EXPECT_EQ(with(1, 0), std::nullopt);     // type
  EXPECT_EQ(with(1, 11), std::nullopt);
  EXPECT_EQ(with(2, 2), std::nullopt);      // class
  EXPECT_EQ(with(3, 2), std::nullopt);      // flags
  EXPECT_EQ(with(23, 0x41), std::nullopt);  // length of 2^62 and more
  EXPECT_NE(with(23, 0x3F), std::nullopt);
}

TEST(Frame, RandomBytesNeverCrashTheDecoder) {
  SeededRandom random(7);
  HeaderBytes bytes;
  int decoded = 0;
  for (int i = 0; i < 100'000; ++i) {
    random.fill(bytes);
    bytes[0] = std::byte{0xB5};
    for (std::size_t at = 1; at <= 3; ++at) bytes[at] &= std::byte{3};
    if (const auto header = decode_frame(bytes.data())) {
      ++decoded;
      EXPECT_EQ(encode(*header), bytes);
    }
  }
  EXPECT_GT(decoded, 0);
}

TEST(Handshake, HelloSurvives) {
  Hello hello;
  hello.channel = 2;
  hello.bulk_connections = 3;
  hello.link.fill(std::byte{0x5A});
  hello.token = 0x1122334455667788;
  hello.limits = {1'000'000, 262'144, 8192};
  EXPECT_EQ(decode_hello(encode(hello).data()), hello);
}

TEST(Handshake, WelcomeSurvives) {
  Welcome welcome;
  welcome.token = 42;
  welcome.limits = {1, 2, 3};
  EXPECT_EQ(decode_welcome(encode(welcome).data()), welcome);
  welcome.status = Errc::kVersionMismatch;
  EXPECT_EQ(decode_welcome(encode(welcome).data())->status, Errc::kVersionMismatch);
}

TEST(Handshake, FieldsOutOfRangeAreRefused) {
  const auto refused = [](auto change) {
    Hello hello;
    change(hello);
    return !decode_hello(encode(hello).data());
  };
  EXPECT_FALSE(refused([](Hello&) {})) << "the default is valid";
  EXPECT_TRUE(refused([](Hello& h) { h.bulk_connections = 0; })) << "no bulk connections";
  EXPECT_TRUE(refused([](Hello& h) { h.bulk_connections = kMaxBulkConnections + 1; })) << "too many bulk connections";
  EXPECT_TRUE(refused([](Hello& h) { h.channel = 2; })) << "an unknown channel";
  EXPECT_TRUE(refused([](Hello& h) {
    h.versions.min = 5;
    h.versions.max = 4;
  })) << "the newest version is older than the oldest";
  EXPECT_TRUE(refused([](Hello& h) { h.limits.window = std::uint64_t{1} << 41U; }))
      << "a window that cannot be counted";
  std::array<std::byte, kHelloSize> bytes = encode(Hello{});
  bytes[3] = std::byte{'x'};
  EXPECT_EQ(decode_hello(bytes.data()), std::nullopt);
}

TEST(Handshake, VersionsThatDoNotOverlapAreSeen) {
  Hello hello;
  hello.versions.min = kVersionMax + 1;
  hello.versions.max = kVersionMax + 5;
  const auto decoded = decode_hello(encode(hello).data());
  ASSERT_NE(decoded, std::nullopt);  // it decodes, so that the peer is told of the version instead of being dropped
  EXPECT_GT(decoded->versions.min, kVersionMax);
  Welcome welcome;
  welcome.version = kVersionMax + 1;
  EXPECT_EQ(decode_welcome(encode(welcome).data()), std::nullopt);  // a version that this side did not offer
}

}  // namespace
}  // namespace spate::bmi::tcp
