// SPDX-License-Identifier: Apache-2.0
#include "base/umac.h"

#include <nettle/umac.h>

namespace spate {

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
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(nonce >> (56 - 8 * i));
  umac64_set_nonce(&state_->context, bytes.size(), bytes.data());
  for (const ByteView part : parts)
    umac64_update(&state_->context, part.size(), reinterpret_cast<const std::uint8_t*>(part.data()));
  Code code{};
  umac64_digest(&state_->context, code.size(), reinterpret_cast<std::uint8_t*>(code.data()));
  return code;
}

}  // namespace spate
