// SPDX-License-Identifier: Apache-2.0
#include "base/digest.h"

#include "base/expect.h"

namespace spate {
namespace {

std::string digest_of(DigestKind kind, std::string_view text) {
  Digest digest(kind);
  digest.update(as_bytes(text));
  return digest.hex();
}

// Reference values: FIPS 180-2 appendix B; the empty input of XXH3-128 as in the XXHASH specification.
TEST(Digest, KnownValues) {
  EXPECT_EQ(digest_of(DigestKind::kSha256, "abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest_of(DigestKind::kSha256, ""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest_of(DigestKind::kXxh3, ""), "99aa06d3014798d86001c324468d497f");
}

TEST(Digest, PiecesGiveTheSameDigestAsTheWhole) {
  const std::string text(5000, 'x');
  for (const DigestKind kind : {DigestKind::kSha256, DigestKind::kXxh3}) {
    Digest digest(kind);
    std::string_view rest = text;
    for (std::size_t size = 1; !rest.empty(); size = size * 3 + 1) {
      digest.update(as_bytes(rest.substr(0, size)));
      rest.remove_prefix(std::min(size, rest.size()));
    }
    EXPECT_EQ(digest.hex(), digest_of(kind, text));
    EXPECT_EQ(digest_of(kind, text).size(), digest_digits(kind));
    EXPECT_NE(digest_of(kind, text), digest_of(kind, text + "x"));
  }
}

TEST(Digest, ParsesTheNamesOfItsKinds) {
  for (const DigestKind kind : {DigestKind::kSha256, DigestKind::kXxh3})
    EXPECT_EQ(parse_digest_kind(name(kind)).value(), kind);
  EXPECT_ERRC(parse_digest_kind("md5"), Errc::kInvalidArgument);
}

}  // namespace
}  // namespace spate
