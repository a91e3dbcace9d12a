// SPDX-License-Identifier: Apache-2.0
#include "base/umac.h"

#include <nettle/umac.h>

namespace spate {
namespace {

void put_big_endian(std::uint64_t value, std::uint8_t* out) {
  for (std::size_t i = 0; i < sizeof value; ++i) out[i] = static_cast<std::uint8_t>(value >> (56 - 8 * i));
}

const std::uint8_t* bytes_of(ByteView view) { return reinterpret_cast<const std::uint8_t*>(view.data()); }

}  // namespace

class Umac64::State {
 public:
  umac64_ctx context;
};

Umac64::Umac64(const std::array<std::byte, kKeySize>& key) : state_(std::make_unique<State>()) {
  umac64_set_key(&state_->context, reinterpret_cast<const std::uint8_t*>(key.data()));
}

Umac64::~Umac64() = default;
Umac64::Umac64(Umac64&& other) noexcept = default;
Umac64& Umac64::operator=(Umac64&& other) noexcept = default;

Umac64::Code Umac64::code(std::uint64_t nonce, std::initializer_list<ByteView> parts) {
  std::array<std::uint8_t, 8> bytes{};
  put_big_endian(nonce, bytes.data());
  umac64_set_nonce(&state_->context, bytes.size(), bytes.data());
  for (const ByteView part : parts) umac64_update(&state_->context, part.size(), bytes_of(part));
  Code code{};
  umac64_digest(&state_->context, code.size(), reinterpret_cast<std::uint8_t*>(code.data()));
  return code;
}

class Umac128::State {
 public:
  umac128_ctx context;
};

Umac128::Umac128(const std::array<std::byte, kKeySize>& key) : state_(std::make_unique<State>()) {
  umac128_set_key(&state_->context, reinterpret_cast<const std::uint8_t*>(key.data()));
}

Umac128::~Umac128() = default;
Umac128::Umac128(Umac128&& other) noexcept = default;
Umac128& Umac128::operator=(Umac128&& other) noexcept = default;

Umac128::Code Umac128::code(std::uint64_t high, std::uint64_t low, std::span<const ByteView> parts) {
  std::array<std::uint8_t, 16> nonce{};
  put_big_endian(high, nonce.data());
  put_big_endian(low, nonce.data() + sizeof high);
  umac128_set_nonce(&state_->context, nonce.size(), nonce.data());
  for (const ByteView part : parts) umac128_update(&state_->context, part.size(), bytes_of(part));
  Code code{};
  umac128_digest(&state_->context, code.size(), reinterpret_cast<std::uint8_t*>(code.data()));
  return code;
}

}  // namespace spate
