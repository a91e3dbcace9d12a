// SPDX-License-Identifier: Apache-2.0
// A configuration without mistakes, and the mistakes that load() finds when something in it is replaced. For tests.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/expect.h"
#include "config/load.h"

namespace spate::config {

inline constexpr const char* kGood = R"([fs]
id = "5eed0001"
auth = "none"
[[servers]]
id = 1
urls = ["tcp://127.0.0.1:7400", "shm://one"]
roles = ["meta"]
keyval = "meta1"
[[servers]]
id = 2
urls = ["tcp://127.0.0.1:7401"]
roles = ["io"]
storage = ["a/../data2", "/abs"]
)";

inline Input input(std::string text) { return {std::move(text), "spate.toml", "/etc/spate", {}}; }
inline std::string replaced(std::string text, std::string_view what, std::string_view by) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}
/// The mistakes in the good file after `what` was replaced by `by`.
inline std::string mistakes(std::string_view what, std::string_view by) {
  const auto loaded = load(input(replaced(kGood, what, by)));
  EXPECT_ERRC(loaded, Errc::kInvalidArgument) << by;
  return loaded ? "" : loaded.error().context();
}
inline std::string mistakes_with(std::string_view added) {
  return mistakes("auth = \"none\"\n", "auth = \"none\"\n" + std::string(added));
}

}  // namespace spate::config
