// SPDX-License-Identifier: Apache-2.0
#include "bmi/protocol/handshake.h"

#include "base/expect.h"

namespace spate::bmi::protocol {
namespace {

std::optional<Versions> hello_head(const Bytes& bytes) {
  Decoder in(bytes);
  return get_hello_head(in, "magic");
}
Bytes hello_of(std::string_view magic, const Versions& versions) {
  Bytes bytes;
  Encoder out(bytes);
  put_hello_head(out, magic, versions);
  return bytes;
}

TEST(HandshakeTest, TwoSidesMeetIfTheySpeakSomeVersion) {
  const Versions own{2, 4};
  EXPECT_TRUE(own.meets({4, 6})) << "version 4";
  EXPECT_TRUE(own.meets({1, 2})) << "version 2";
  EXPECT_TRUE(own.meets({3, 3})) << "version 3";
  EXPECT_FALSE(own.meets({5, 6})) << "the other side is newer";
  EXPECT_FALSE(own.meets({1, 1})) << "the other side is older";
}

TEST(HandshakeTest, AHelloBeginsWithItsTextAndTheVersions) {
  EXPECT_EQ(hello_head(hello_of("magic", {2, 4})), (Versions{2, 4}));
  EXPECT_EQ(hello_head(hello_of("other", {2, 4})), std::nullopt);
  EXPECT_EQ(hello_head(hello_of("magic", {4, 2})), std::nullopt) << "no version lies between";
  Bytes cut = hello_of("magic", {2, 4});
  cut.pop_back();
  EXPECT_EQ(hello_head(cut), std::nullopt) << "cut off";
}

TEST(HandshakeTest, AWelcomeBeginsWithItsTextAndTheStatus) {
  Bytes bytes;
  Encoder out(bytes);
  put_welcome_head(out, "magic", {Errc::kBusy, 3});
  Decoder in(bytes);
  const auto head = get_welcome_head(in, "magic");
  ASSERT_NE(head, std::nullopt);
  EXPECT_EQ(head->status, Errc::kBusy);
  EXPECT_EQ(head->version, 3);
  Decoder again(bytes);
  EXPECT_EQ(get_welcome_head(again, "other"), std::nullopt);
}

}  // namespace
}  // namespace spate::bmi::protocol
