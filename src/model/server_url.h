// SPDX-License-Identifier: Apache-2.0
// Server URLs: which of a server's URLs messages name.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace spate {

/// Whether it is an address of shared memory, which works on the server's own machine only.
inline bool is_shm_url(std::string_view url) { return url.starts_with("shm://"); }

/// The URL to name in messages: the first one that means the same on every machine, else the first. `urls` is not
/// empty.
inline const std::string& shown_url(const std::vector<std::string>& urls) {
  const auto found = std::ranges::find_if_not(urls, is_shm_url);
  return found == urls.end() ? urls.front() : *found;
}

}  // namespace spate
