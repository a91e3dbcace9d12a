// SPDX-License-Identifier: Apache-2.0
// The examples of RFC 5869 (HKDF), FIPS 180-4 (SHA-256), RFC 4231 (HMAC) and RFC 4418 (UMAC).
#include "base/kdf.h"

#include <algorithm>
#include <string>

#include "base/expect.h"
#include "base/umac.h"

namespace spate {
namespace {

std::string hex(ByteView bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte b : bytes) {
    text += kDigits[std::to_integer<unsigned>(b) >> 4U];
    text += kDigits[std::to_integer<unsigned>(b) & 15U];
  }
  return text;
}

/// `count` bytes: first, first + 1, ...
Bytes counted(unsigned first, std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(first + i);
  return bytes;
}

TEST(Kdf, Sha256OfPartsIsThatOfTheWhole) {
  EXPECT_EQ(hex(sha256({as_bytes("abc")})), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256({as_bytes("a"), {}, as_bytes("bc")}), sha256({as_bytes("abc")}));
}

TEST(Kdf, HmacOfRfc4231) {
  Key key{};  // HMAC pads a shorter key with zeros
  for (std::size_t i = 0; i < 20; ++i) key[i] = std::byte{0x0b};
  EXPECT_EQ(hex(hmac256(key, {as_bytes("Hi "), as_bytes("There")})),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
}

TEST(Kdf, HkdfOfRfc5869Case1) {
  const Key prk = hkdf_extract(counted(0, 13), Bytes(22, std::byte{0x0b}));
  EXPECT_EQ(hex(prk), "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5");
  Bytes out(42);
  hkdf_expand(prk, counted(0xf0, 10), out);
  EXPECT_EQ(hex(out), "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
}

TEST(Kdf, HkdfOfRfc5869Case2) {
  const Key prk = hkdf_extract(counted(0x60, 80), counted(0, 80));
  EXPECT_EQ(hex(prk), "06a6b88c5853361a06104c9ceb35b45cef760014904671014a193f40c15fc244");
  Bytes out(82);
  hkdf_expand(prk, counted(0xb0, 80), out);
  EXPECT_EQ(hex(out),
            "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09"
            "da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87");
}

TEST(Kdf, HkdfOfRfc5869Case3) {
  const Key prk = hkdf_extract({}, Bytes(22, std::byte{0x0b}));
  EXPECT_EQ(hex(prk), "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04");
  Bytes out(42);
  hkdf_expand(prk, {}, out);
  EXPECT_EQ(hex(out), "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
}

std::string umac64(const Bytes& message) {
  std::array<std::byte, 16> key{};
  std::ranges::copy(as_bytes("abcdefghijklmnop"), key.begin());
  Umac64 mac(key);
  return hex(mac.code(0x6263646566676869, {message}));  // "bcdefghi"
}

TEST(Umac, Rfc4418) {
  EXPECT_EQ(umac64({}), "6e155fad26900be1");
  EXPECT_EQ(umac64(Bytes(3, std::byte{'a'})), "44b5cb542f220104");
  EXPECT_EQ(umac64(Bytes(1U << 10U, std::byte{'a'})), "26bf2f5d60118bd9");
  EXPECT_EQ(umac64(Bytes(1U << 15U, std::byte{'a'})), "27f8ef643b0d118d");
  EXPECT_EQ(umac64(Bytes(1U << 20U, std::byte{'a'})), "a4477e87e9f55853");
  EXPECT_EQ(umac64(to_bytes(as_bytes("abc"))), "d4d7b9f6bd4fbfcf");
  Bytes many;
  for (int i = 0; i < 500; ++i) many.insert(many.end(), {std::byte{'a'}, std::byte{'b'}, std::byte{'c'}});
  EXPECT_EQ(umac64(many), "d4cf26ddefd5c01a");
}

TEST(Umac, EachNonceBitAndEachMessageBitCounts) {
  Umac64 mac({});
  const Bytes message = counted(1, 100);
  const auto genuine = mac.code(1ULL << 40U, {message});
  EXPECT_EQ(mac.code(1ULL << 40U, {ByteView(message).first(33), ByteView(message).subspan(33)}), genuine);
  for (unsigned bit = 0; bit < 64; ++bit) {
    if (bit != 40) EXPECT_NE(mac.code((1ULL << 40U) ^ (1ULL << bit), {message}), genuine) << bit;
  }
  for (std::size_t bit = 0; bit < message.size() * 8; ++bit) {
    Bytes other = message;
    other[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_NE(mac.code(1ULL << 40U, {other}), genuine) << bit;
  }
}

}  // namespace
}  // namespace spate
