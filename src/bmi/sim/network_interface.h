// SPDX-License-Identifier: Apache-2.0
// NetworkInterface: the address of a simulated process, and its URL.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace spate::bmi::sim {

/// One network interface: a node's number, and which of its networks (0: "sim://", 1: "sim2://", ...).
struct NetworkInterface {
  std::uint32_t node = 0;
  std::uint32_t path = 0;
  friend constexpr auto operator<=>(const NetworkInterface&, const NetworkInterface&) = default;
};

/// "sim://7" on path 0, "sim2://7" on path 1, and so on.
std::string url_of(NetworkInterface interface);
/// Nothing if the text is no such URL.
std::optional<NetworkInterface> parse_url(std::string_view url);

}  // namespace spate::bmi::sim
