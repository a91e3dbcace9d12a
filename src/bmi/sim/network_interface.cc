// SPDX-License-Identifier: Apache-2.0
#include "bmi/sim/network_interface.h"

#include <charconv>

#include "bmi/registry.h"

namespace spate::bmi::sim {
namespace {

std::optional<std::uint32_t> parse_number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string url_of(NetworkInterface interface) {
  return "sim" + (interface.path == 0 ? std::string() : std::to_string(interface.path + 1)) + "://" +
         std::to_string(interface.node);
}

std::optional<NetworkInterface> parse_url(std::string_view url) {
  const std::string_view scheme = url_scheme(url);
  if (!scheme.starts_with("sim")) return std::nullopt;
  NetworkInterface interface;
  if (scheme.size() > 3) {
    const auto number = parse_number(scheme.substr(3));
    if (!number || *number < 2) return std::nullopt;
    interface.path = *number - 1;
  }
  const auto node = parse_number(url.substr(scheme.size() + 3));
  if (!node) return std::nullopt;
  interface.node = *node;
  return interface;
}

}  // namespace spate::bmi::sim
