// SPDX-License-Identifier: Apache-2.0
#include "server/io/records.h"

#include "base/codec.h"
#include "base/expect.h"

namespace spate::io {
namespace {

const DatafileKey kDatafile{TargetId(0x01020304), {Handle(0x1112131415161718), 0x21222324}};

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int v : values) bytes.push_back(static_cast<std::byte>(v));
  return bytes;
}

// Compares the stored form with docs/disk-io.md, byte by byte. A change here is a change of the format.
TEST(Records, KeysAreAsDocumented) {
  EXPECT_EQ(truncate_key(kDatafile),
            bytes_of({'I', 't', 1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24}));
  EXPECT_EQ(tombstone_key(kDatafile),
            bytes_of({'I', 'd', 1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24}));
  EXPECT_EQ(tombstone_end_key(WallTime{0x0102}, kDatafile),
            bytes_of({'I', 'e',  0,    0,    0,    0,    0,    0,    1,    2,    1,    2,    3,
                      4,   0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24}));
  EXPECT_EQ(loss_key(kDatafile),
            bytes_of({'I', 'l', 1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24}));
  EXPECT_EQ(identity_key(), bytes_of({'I', 'i'}));
  EXPECT_EQ(redone_key(), bytes_of({'I', 'r'}));
  EXPECT_EQ(fence_key(ClientId(0x0102)), bytes_of({'I', 'f', 0, 0, 0, 0, 0, 0, 1, 2}));
}

TEST(Records, ValuesAreAsDocumented) {
  EXPECT_EQ(encode(TruncateRecord{0x0201, 3}), bytes_of({1, 1, 2, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(encode(LossRecord{0x0201, 3}), bytes_of({1, 1, 2, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(encode(TombstoneRecord{WallTime{0x0201}}), bytes_of({1, 1, 2, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(encode(IdentityRecord{FsId(0x0201), ServerId(3)}), bytes_of({1, 1, 2, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0}));
  EXPECT_EQ(encode(RedoneRecord{0x0201}), bytes_of({1, 1, 2, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(encode(FenceRecord{0x0403, WallTime{0x0201}}), bytes_of({1, 3, 4, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0}));
}

TEST(Records, DecodeReversesEncode) {
  EXPECT_EQ(decode_truncate(encode(TruncateRecord{77, 5})).value(), (TruncateRecord{77, 5}));
  EXPECT_EQ(decode_tombstone(encode(TombstoneRecord{WallTime{78}})).value(), TombstoneRecord{WallTime{78}});
  const FenceRecord fence{5, WallTime{79}};
  EXPECT_EQ(decode_fence(encode(fence)).value(), fence);
  EXPECT_EQ(decode_loss(encode(LossRecord{77, 5})).value(), (LossRecord{77, 5}));
  EXPECT_EQ(decode_redone(encode(RedoneRecord{77})).value(), RedoneRecord{77});
  const IdentityRecord identity{FsId(77), ServerId(78)};
  EXPECT_EQ(decode_identity(encode(identity)).value(), identity);
  const auto end = decode_tombstone_end_key(tombstone_end_key(WallTime{80}, kDatafile));
  ASSERT_OK(end);
  EXPECT_EQ(end->until, WallTime{80});
  EXPECT_EQ(end->datafile, kDatafile);
  EXPECT_EQ(decode_fence_key(fence_key(ClientId(9))).value(), ClientId(9));
}

TEST(Records, ANewerVersionIsRefusedByName) {
  Bytes value = encode(FenceRecord{5, WallTime{79}});
  value[0] = std::byte{2};
  EXPECT_ERRC(decode_fence(value), Errc::kFormatTooNew);
  value[0] = std::byte{0};
  EXPECT_ERRC(decode_fence(value), Errc::kCorrupt);
}

TEST(Records, AnyOtherLengthIsCorrupt) {
  for (Bytes value = encode(TruncateRecord{77, 5}); !value.empty();) {
    value.pop_back();
    EXPECT_ERRC(decode_truncate(value), Errc::kCorrupt);
  }
  for (Bytes value = encode(IdentityRecord{FsId(1), ServerId(2)}); !value.empty();) {
    value.pop_back();
    EXPECT_ERRC(decode_identity(value), Errc::kCorrupt);
  }
  Bytes longer = encode(TombstoneRecord{WallTime{1}});
  longer.push_back(std::byte{0});
  EXPECT_ERRC(decode_tombstone(longer), Errc::kCorrupt);
  EXPECT_ERRC(decode_tombstone_end_key(tombstone_key(kDatafile)), Errc::kCorrupt);
  EXPECT_ERRC(decode_fence_key(truncate_key(kDatafile)), Errc::kCorrupt);
}

TEST(Records, TheIndexSortsByTime) {
  const auto key = [](std::int64_t ns) { return tombstone_end_key(WallTime{ns}, kDatafile); };
  EXPECT_LT(key(255), key(256));
  EXPECT_LT(key(-5), key(1));
  EXPECT_LT(tombstone_end_first(), key(0));
  EXPECT_LT(key(256), tombstone_end_after(WallTime{256}));
  EXPECT_LT(tombstone_end_after(WallTime{256}), key(257));
  EXPECT_LT(fence_key(ClientId(~0ULL)), fence_after_all());
  EXPECT_LT(loss_first(), loss_key(kDatafile));
  EXPECT_LT(loss_key(kDatafile), loss_after_all());
}

}  // namespace
}  // namespace spate::io
