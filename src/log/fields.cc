// SPDX-License-Identifier: Apache-2.0
#include "log/fields.h"

#include <fmt/format.h>

#include <string>

fmt::appender spate::log::format_number(std::uint64_t number, fmt::format_context& context) {
  return fmt::format_to(context.out(), "{}", number);
}

using Text = fmt::formatter<fmt::string_view>;

fmt::appender fmt::formatter<spate::Errc>::format(spate::Errc code, fmt::format_context& context) const {
  const std::string_view name = spate::name(code);
  return Text::format({name.data(), name.size()}, context);
}

fmt::appender fmt::formatter<spate::log::Quoted>::format(spate::log::Quoted quoted,
                                                         fmt::format_context& context) const {
  std::string out = "\"";
  for (const char c : quoted.text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  out += '"';
  return Text::format(out, context);
}

fmt::appender fmt::formatter<spate::Error>::format(const spate::Error& error, fmt::format_context& context) const {
  return fmt::formatter<spate::log::Quoted>().format(spate::log::Quoted{error.message()}, context);
}

fmt::appender fmt::formatter<spate::log::Hex>::format(spate::log::Hex hex, fmt::format_context& context) const {
  return Text::format(fmt::format("{:016x}", hex.value), context);
}
