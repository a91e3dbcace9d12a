// SPDX-License-Identifier: Apache-2.0
// Umac64, Umac128: message authentication codes that cost some 45 ns for a small message, and 0.12 ms for a MiB (RFC
// 4418, by Nettle).
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

#include "base/bytes.h"

namespace spate {

/// Holds the key schedule, which is computed once. Move-only, not thread-safe. Never use a nonce twice under one key:
/// an attacker who sees two codes of one nonce can forge messages.
class Umac64 {
 public:
  static constexpr std::size_t kKeySize = 16;
  using Code = std::array<std::byte, 8>;

  explicit Umac64(const std::array<std::byte, kKeySize>& key);
  ~Umac64();
  Umac64(Umac64&& other) noexcept;
  Umac64& operator=(Umac64&& other) noexcept;

  /// The code of the parts, one after the other, under `nonce` (8 bytes, big-endian).
  Code code(std::uint64_t nonce, std::initializer_list<ByteView> parts);

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// The same with a longer code, for messages that an attacker may try to forge many times.
class Umac128 {
 public:
  static constexpr std::size_t kKeySize = 16;
  using Code = std::array<std::byte, 16>;

  explicit Umac128(const std::array<std::byte, kKeySize>& key);
  ~Umac128();
  Umac128(Umac128&& other) noexcept;
  Umac128& operator=(Umac128&& other) noexcept;

  /// The code of the parts, one after the other, under the nonce `high`, `low` (8 bytes each, big-endian).
  Code code(std::uint64_t high, std::uint64_t low, std::span<const ByteView> parts);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace spate
