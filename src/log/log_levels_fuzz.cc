// SPDX-License-Identifier: Apache-2.0
// Fuzzer: a text of log levels, as in spate.toml, the environment and the command line. It is either applied or refused
// as a whole.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "log/log.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spate;
  SPATE_CHECK(log::set_levels("info").has_value());
  const auto set = log::set_levels({reinterpret_cast<const char*>(data), size});
  SPATE_CHECK(set || set.code() == Errc::kInvalidArgument);
  for (const auto& level : log::detail::levels) {
    if (!set) SPATE_CHECK(level.load() == static_cast<std::uint8_t>(log::Level::info));
  }
  return 0;
}
