// SPDX-License-Identifier: Apache-2.0
// AccessList: which clients may use an export, by their addresses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace spate::nbd {

/// An empty list lets everybody in. A value.
class AccessList {
 public:
  /// "10.0.0.0/8", "192.0.2.7", "fd00::/8", or "unix" for clients of Unix sockets; several separated by commas.
  static Result<AccessList> parse(std::string_view text);
  /// `ip`: 4 or 16 bytes; empty for a Unix socket.
  bool allows(const std::vector<std::uint8_t>& ip) const;
  bool empty() const { return rules_.empty(); }

 private:
  struct Rule {
    std::vector<std::uint8_t> ip;  // empty: Unix sockets
    unsigned bits = 0;
  };
  static Result<Rule> parse_rule(std::string_view text);
  std::vector<Rule> rules_;
};

}  // namespace spate::nbd
