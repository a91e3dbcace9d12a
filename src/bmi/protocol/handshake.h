// SPDX-License-Identifier: Apache-2.0
// The fields with which the hello and the welcome of every module begin, after a text that names the module.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/codec.h"
#include "base/error.h"

namespace spate::bmi::protocol {

/// The versions of a module's protocol that one side speaks.
struct Versions {
  std::uint16_t min = 0;
  std::uint16_t max = 0;
  bool has(std::uint16_t version) const { return version >= min && version <= max; }
  /// Whether both sides speak some version.
  bool meets(const Versions& other) const { return min <= other.max && other.min <= max; }
  friend bool operator==(const Versions&, const Versions&) = default;
};

void put_hello_head(Encoder& out, std::string_view magic, const Versions& versions);
/// Nothing if the bytes begin with another text, or no version lies between the two.
std::optional<Versions> get_hello_head(Decoder& in, std::string_view magic);

struct WelcomeHead {
  Errc status = Errc::kOk;
  std::uint16_t version = 0;
};
void put_welcome_head(Encoder& out, std::string_view magic, const WelcomeHead& head);
/// Nothing if the bytes begin with another text.
std::optional<WelcomeHead> get_welcome_head(Decoder& in, std::string_view magic);

}  // namespace spate::bmi::protocol
