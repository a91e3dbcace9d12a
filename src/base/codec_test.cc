// SPDX-License-Identifier: Apache-2.0
#include "base/codec.h"

#include "base/checksum.h"
#include "base/expect.h"
#include "base/random.h"

namespace spate {
namespace {

TEST(Codec, IsLittleEndianToTheByte) {
  Bytes out;
  Encoder e(out);
  e.u8(1);
  e.u16(0x0302);
  e.u32(0x07060504);
  e.u64(0x0F0E0D0C0B0A0908ULL);
  e.text("ab");
  ASSERT_EQ(out.size(), 1U + 2 + 4 + 8 + 4 + 2);
  for (unsigned i = 0; i < 15; ++i) EXPECT_EQ(static_cast<unsigned>(out[i]), i + 1);
  Decoder d(out);
  EXPECT_EQ(d.u8(), 1);
  EXPECT_EQ(d.u16(), 0x0302);
  EXPECT_EQ(d.u32(), 0x07060504U);
  EXPECT_EQ(d.u64(), 0x0F0E0D0C0B0A0908ULL);
  EXPECT_EQ(d.text(2), "ab");
  EXPECT_OK(d.finish("test"));
}

TEST(Codec, AStagedEncoderWritesEverythingInOrder) {
  for (std::uint64_t run = 0; run < 200; ++run) {
    Bytes plain(run % 3);
    Bytes staged(run % 3);
    {
      Encoder a(plain);
      StagedEncoder b(staged);
      for (Encoder* const e : {&a, static_cast<Encoder*>(&b)}) {
        SeededRandom values(run);
        for (std::uint64_t left = values.below(200); left > 0; --left) {
          const std::uint64_t v = values.next();
          if (v % 7 == 0) e->u8(static_cast<std::uint8_t>(v >> 8U));
          if (v % 7 == 1) e->u16(static_cast<std::uint16_t>(v >> 8U));
          if (v % 7 == 2) e->u32(static_cast<std::uint32_t>(v >> 8U));
          if (v % 7 == 3) e->u64(v);
          if (v % 7 == 4) e->text(std::string(values.below(40), 'x'));
          if (v % 7 == 5 && v % 11 == 0) e->raw(Bytes(values.below(1200), std::byte{0x5A}));
          if (v % 7 == 6 && e->size() >= 8)
            e->patch_u32(values.below(e->size() - 4), static_cast<std::uint32_t>(v >> 8U));
        }
      }
      ASSERT_EQ(a.size(), b.size());
    }
    ASSERT_EQ(plain, staged) << "run " << run;
  }
}

TEST(Codec, AShortReadFailsForGood) {
  const Bytes three(3);
  Decoder d(three);
  EXPECT_EQ(d.u32(), 0U);
  EXPECT_EQ(d.u8(), 0);
  EXPECT_ERRC(d.finish("x"), Errc::kCorrupt);
}

TEST(Codec, ALyingCountIsRefused) {
  Bytes out;
  Encoder e(out);
  e.u32(1'000'000);
  e.u64(0);
  Decoder d(out);
  EXPECT_EQ(d.count(8), 0U);
  EXPECT_FALSE(d.ok());
}

TEST(Checksum, MatchesPublishedVectors) {
  EXPECT_EQ(crc32c(as_bytes("123456789")), 0xE3069283U);
  const auto whole = as_bytes("123456789");
  EXPECT_EQ(crc32c(whole.subspan(4), crc32c(whole.first(4))), 0xE3069283U);
  EXPECT_EQ(hash64(as_bytes("")), 0xEF46DB3751D8E999ULL);
}

TEST(Random, TheSameSeedGivesTheSameNumbers) {
  SeededRandom a(7);
  SeededRandom b(7);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a.next(), b.next());
  for (int i = 0; i < 1000; ++i) EXPECT_LT(a.below(10), 10U);
}

}  // namespace
}  // namespace spate
