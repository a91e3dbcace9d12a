// SPDX-License-Identifier: Apache-2.0
#include "bmi/sim/place.h"

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

std::string url_of(Place place) {
  return "sim" + (place.path == 0 ? std::string() : std::to_string(place.path + 1)) + "://" +
         std::to_string(place.node);
}

std::optional<Place> parse_url(std::string_view url) {
  const std::string_view scheme = url_scheme(url);
  if (!scheme.starts_with("sim")) return std::nullopt;
  Place place;
  if (scheme.size() > 3) {
    const auto number = parse_number(scheme.substr(3));
    if (!number || *number < 2) return std::nullopt;
    place.path = *number - 1;
  }
  const auto node = parse_number(url.substr(scheme.size() + 3));
  if (!node) return std::nullopt;
  place.node = *node;
  return place;
}

}  // namespace spate::bmi::sim
