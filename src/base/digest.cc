// SPDX-License-Identifier: Apache-2.0
#include "base/digest.h"

#include <nettle/sha2.h>
#include <xxhash.h>

#include <array>

#include "base/check.h"

namespace spate {
namespace {

std::string to_hex(const unsigned char* bytes, std::size_t size) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < size; ++i) {
    text += kDigits[bytes[i] >> 4U];
    text += kDigits[bytes[i] & 15U];
  }
  return text;
}

}  // namespace

Result<DigestKind> parse_digest_kind(std::string_view name) {
  if (name == "sha256") return DigestKind::kSha256;
  if (name == "xxh3") return DigestKind::kXxh3;
  return Error(Errc::kInvalidArgument, "no checksum \"" + std::string(name) + "\" (there are: sha256, xxh3)");
}

std::string_view name(DigestKind kind) { return kind == DigestKind::kSha256 ? "sha256" : "xxh3"; }

std::size_t digest_digits(DigestKind kind) { return kind == DigestKind::kSha256 ? 64 : 32; }

/// The state of one of the two libraries: XXH3's if xxh_ is set, otherwise SHA-256's.
class Digest::State {
 public:
  explicit State(DigestKind kind) {
    if (kind == DigestKind::kSha256) {
      sha256_init(&sha_);
    } else {
      xxh_.reset(XXH3_createState());
      SPATE_CHECK(xxh_ != nullptr && XXH3_128bits_reset(xxh_.get()) == XXH_OK);
    }
  }
  void update(ByteView bytes) {
    if (xxh_ == nullptr) {
      sha256_update(&sha_, bytes.size(), reinterpret_cast<const std::uint8_t*>(bytes.data()));
    } else {
      SPATE_CHECK(XXH3_128bits_update(xxh_.get(), bytes.data(), bytes.size()) == XXH_OK);
    }
  }
  std::string hex() {
    if (xxh_ != nullptr) {
      XXH128_canonical_t canonical;
      XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(xxh_.get()));
      return to_hex(canonical.digest, sizeof canonical.digest);
    }
    std::array<std::uint8_t, SHA256_DIGEST_SIZE> digest;
    sha256_digest(&sha_, digest.size(), digest.data());
    return to_hex(digest.data(), digest.size());
  }

 private:
  struct FreeXxh {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  sha256_ctx sha_;  // used if xxh_ is null
  std::unique_ptr<XXH3_state_t, FreeXxh> xxh_;
};

Digest::Digest(DigestKind kind) : state_(std::make_unique<State>(kind)) {}
Digest::~Digest() = default;
Digest::Digest(Digest&& other) noexcept = default;
Digest& Digest::operator=(Digest&& other) noexcept = default;

void Digest::update(ByteView bytes) { state_->update(bytes); }

std::string Digest::hex() { return state_->hex(); }

}  // namespace spate
