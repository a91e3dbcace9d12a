// SPDX-License-Identifier: Apache-2.0
#include "model/layout.h"

#include "base/expect.h"

namespace spate {
namespace {

Layout sample() {
  Layout layout;
  layout.generation = 3;
  layout.strip_bytes = 65536;
  layout.slots = {Slot{{TargetId(257)}}, Slot{{TargetId(513), TargetId(514)}}};
  return layout;
}

TEST(Layout, DecodeUndoesEncode) {
  Bytes bytes;
  Encoder out(bytes);
  encode(out, sample());
  Decoder in(bytes);
  EXPECT_EQ(decode_layout(in), sample());
  EXPECT_OK(in.finish("layout"));
}

TEST(Layout, EveryTruncationAndABadStripAreRefused) {
  Bytes bytes;
  Encoder out(bytes);
  encode(out, sample());
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    Decoder in(ByteView(bytes).first(n));
    decode_layout(in);
    EXPECT_FALSE(in.ok()) << n;
  }
  Layout bad = sample();
  bad.strip_bytes = 1;
  bytes.clear();
  encode(out, bad);
  Decoder in(bytes);
  decode_layout(in);
  EXPECT_FALSE(in.ok());
}

TEST(Layout, MirroredSlotsNameOneGroupEach) {
  const auto decoded = [](std::vector<Slot> slots) {
    Layout layout = sample();
    layout.redundancy = Redundancy::kMirror;
    layout.slots = std::move(slots);
    Bytes bytes;
    Encoder out(bytes);
    encode(out, layout);
    Decoder in(bytes);
    return decode_layout(in) == layout && in.ok();
  };
  EXPECT_TRUE(decoded({Slot{{TargetId(1U << 24U)}}, Slot{{TargetId((1U << 24U) + 9)}}}));
  EXPECT_FALSE(decoded({Slot{{TargetId(1U << 24U)}}, Slot{{TargetId(512)}}}));
  EXPECT_FALSE(decoded({Slot{{TargetId(1U << 24U), TargetId((1U << 24U) + 9)}}}));
}

}  // namespace
}  // namespace spate
