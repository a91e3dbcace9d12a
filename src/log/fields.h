// SPDX-License-Identifier: Apache-2.0
// The form of Spate's own types in a log line: ids are numbers, a trace id has 16 hex digits, errors have their name.
#pragma once

#include <fmt/core.h>

#include "base/error.h"
#include "base/strong_id.h"

namespace spate {
struct TraceIdTag;

namespace log {

/// A value of any content as one field: in double quotes, with quotes and backslashes escaped. Borrows.
struct Quoted {
  std::string_view text;
};
/// 16 hex digits.
struct Hex {
  std::uint64_t value = 0;
};

fmt::appender format_number(std::uint64_t number, fmt::format_context& context);

}  // namespace log
}  // namespace spate

/// "timeout".
template <>
struct fmt::formatter<spate::Errc> : fmt::formatter<fmt::string_view> {
  fmt::appender format(spate::Errc code, fmt::format_context& context) const;
};

/// The whole message, quoted.
template <>
struct fmt::formatter<spate::Error> : fmt::formatter<fmt::string_view> {
  fmt::appender format(const spate::Error& error, fmt::format_context& context) const;
};

template <>
struct fmt::formatter<spate::log::Quoted> : fmt::formatter<fmt::string_view> {
  fmt::appender format(spate::log::Quoted quoted, fmt::format_context& context) const;
};

template <>
struct fmt::formatter<spate::log::Hex> : fmt::formatter<fmt::string_view> {
  fmt::appender format(spate::log::Hex hex, fmt::format_context& context) const;
};

/// Ids print as decimal numbers (without format specification) ...
template <typename Tag, typename Rep>
struct fmt::formatter<spate::StrongId<Tag, Rep>> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  fmt::appender format(spate::StrongId<Tag, Rep> id, fmt::format_context& context) const {
    return spate::log::format_number(id.value, context);
  }
};

/// ... but a trace id as 16 hex digits.
template <>
struct fmt::formatter<spate::StrongId<spate::TraceIdTag>> : fmt::formatter<spate::log::Hex> {
  fmt::appender format(spate::StrongId<spate::TraceIdTag> id, fmt::format_context& context) const {
    return fmt::formatter<spate::log::Hex>::format(spate::log::Hex{id.value}, context);
  }
};
