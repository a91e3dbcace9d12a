// SPDX-License-Identifier: Apache-2.0
#include "http/local_host.h"

#include <algorithm>
#include <array>

namespace spate::http {
namespace {

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 &&
         std::ranges::all_of(text, [](char letter) { return letter >= '0' && letter <= '9'; });
}

bool same_letters(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return (x >= 'A' && x <= 'Z' ? x - 'A' + 'a' : x) == y; });
}

}  // namespace

bool names_loopback(std::string_view host) {
  static constexpr std::array<std::string_view, 3> kNames = {"localhost", "127.0.0.1", "[::1]"};
  return std::ranges::any_of(kNames, [&](std::string_view name) {
    if (!same_letters(host.substr(0, name.size()), name)) return false;
    const std::string_view rest = host.substr(name.size());
    return rest.empty() || (rest.front() == ':' && is_port(rest.substr(1)));
  });
}

}  // namespace spate::http
