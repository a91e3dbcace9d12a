// SPDX-License-Identifier: Apache-2.0
// Place: the address of a simulated process, and its URL.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace spate::bmi::sim {

/// One network interface: a node's number, and which of its networks (0: "sim://", 1: "sim2://", ...).
struct Place {
  std::uint32_t node = 0;
  std::uint32_t path = 0;
  friend constexpr auto operator<=>(const Place&, const Place&) = default;
};

/// "sim://7" on path 0, "sim2://7" on path 1, and so on.
std::string url_of(Place place);
/// Nothing for any other text.
std::optional<Place> parse_url(std::string_view url);

}  // namespace spate::bmi::sim
