// SPDX-License-Identifier: Apache-2.0
#include "bmi/protocol/limits.h"

#include "base/expect.h"

namespace spate::bmi::protocol {
namespace {

Bytes encoded(const Limits& limits) {
  Bytes bytes;
  Encoder out(bytes);
  put_limits(out, limits);
  return bytes;
}

TEST(ProtocolLimits, AreTwentyFourBytesAndDecodeToTheSameLimits) {
  const Limits limits{1U << 20U, 8192, 17, 4096};
  const Bytes bytes = encoded(limits);
  EXPECT_EQ(bytes.size(), 24U);
  Decoder in(bytes);
  EXPECT_EQ(get_limits(in), limits);
  EXPECT_TRUE(in.ok()) << "the decoder failed";
}

TEST(ProtocolLimits, SizesThatThisSideCannotCountAreRefused) {
  const std::uint64_t most = std::uint64_t{1} << 40U;
  for (const Limits& limits : {Limits{most + 1, 0, 0, 0}, Limits{0, most + 1, 0, 0}}) {
    const Bytes bytes = encoded(limits);
    Decoder in(bytes);
    (void)get_limits(in);
    EXPECT_FALSE(in.ok()) << "window " << limits.window << ", largest message " << limits.max_unexpected;
  }
  const Bytes bytes = encoded(Limits{most, most, 0, 0});
  Decoder in(bytes);
  (void)get_limits(in);
  EXPECT_TRUE(in.ok()) << "the largest limits are allowed";
}

TEST(ProtocolLimits, TheWindowHoldsTheLargestUnexpectedMessage) {
  NetworkOptions options;
  options.buffered_per_peer_bytes = 1;
  options.max_unexpected_bytes = 1000;
  EXPECT_EQ(limits_of(options, 5).window, cost_of(1000));
  EXPECT_EQ(limits_of(options, 5).max_announced, 5U);
}

}  // namespace
}  // namespace spate::bmi::protocol
