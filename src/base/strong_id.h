// SPDX-License-Identifier: Apache-2.0
// StrongId: an integer that cannot be mistaken for another kind of integer.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace spate {

/// `using Handle = StrongId<struct HandleTag>;`. Zero is "none" by convention of every id in Spate.
template <typename Tag, typename Rep = std::uint64_t>
struct StrongId {
  using Representation = Rep;
  Rep value = 0;

  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep v) : value(v) {}
  constexpr explicit operator bool() const { return value != 0; }
  friend constexpr auto operator<=>(const StrongId&, const StrongId&) = default;
};

}  // namespace spate

template <typename Tag, typename Rep>
struct std::hash<spate::StrongId<Tag, Rep>> {
  std::size_t operator()(spate::StrongId<Tag, Rep> id) const noexcept {
    // In-memory tables only (std::hash is never stored or sent). Fibonacci mixing: ids are often sequential.
    return static_cast<std::size_t>(static_cast<std::uint64_t>(id.value) * 0x9E3779B97F4A7C15ULL >> 7U);
  }
};
