// SPDX-License-Identifier: Apache-2.0
#include "tools/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

namespace spate::tools {

void print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      if (errno == EPIPE) std::_Exit(kExitNoReader);
      std::perror("spate: standard output");
      std::_Exit(kExitFailed);
    }
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

void print_json(const nlohmann::json& value) {
  print(value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace spate::tools
