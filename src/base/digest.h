// SPDX-License-Identifier: Apache-2.0
// Digest: a checksum over bytes that are given piece by piece. People and other programs compare its text form.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace spate {

/// kSha256: 64 hex digits, as sha256sum prints. kXxh3: XXH3 of 128 bits, 32 hex digits, as xxh128sum prints; many times
/// faster, and no protection against somebody who wants two files to be equal.
enum class DigestKind : std::uint8_t { kSha256, kXxh3 };

/// "sha256", "xxh3"; kInvalidArgument for another name.
Result<DigestKind> parse_digest_kind(std::string_view name);
std::string_view name(DigestKind kind);
/// Hex digits in its text form.
std::size_t digest_digits(DigestKind kind);

/// Move-only value. Life cycle: construct -> update()... -> hex() once.
class Digest {
 public:
  explicit Digest(DigestKind kind);
  ~Digest();
  Digest(Digest&& other) noexcept;
  Digest& operator=(Digest&& other) noexcept;

  void update(ByteView bytes);
  /// Lower-case hex digits of everything so far.
  std::string hex();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace spate
