// SPDX-License-Identifier: Apache-2.0
// Fuzzer: a config file of any bytes, with an override made of its first line. It is loaded or refused. If it was
// loaded, writing and reading it back gives the same value.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "config/describe.h"
#include "config/load.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spate::config;
  Input input{{reinterpret_cast<const char*>(data), size}, "fuzz.toml", "/f", {}};
  const std::string first = input.text.substr(0, input.text.find('\n'));
  if (first.starts_with("#!")) {
    if (auto o = override_from_argument(first.substr(2))) input.overrides.push_back(*std::move(o));
  }
  const auto loaded = load(input);
  if (!loaded) return 0;
  (void)cluster_map(loaded->config);
  for (const std::string& text : {to_toml(loaded->config), show(*loaded)}) {
    const auto again = load({text, "again.toml", "/elsewhere", {}});
    SPATE_CHECK(again.has_value());
    SPATE_CHECK(again->config == loaded->config);
  }
  return 0;
}
