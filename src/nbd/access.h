// SPDX-License-Identifier: Apache-2.0
// AccessList: the clients that may use an export, by address and by TLS identity.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace spate::nbd {

// Prefixes of identities.
inline constexpr std::string_view kCertificate = "cert:";
inline constexpr std::string_view kKey = "psk:";

/// A value. An empty list allows every client. If it has addresses, a client must come from one of them; if it has
/// identities, TLS must have proved one of them. A client of a Unix socket only needs "unix" in the list.
class AccessList {
 public:
  /// "10.0.0.0/8", "192.0.2.7", "fd00::/8"; "unix" for clients of Unix sockets; "cert:NAME" for a certificate's common
  /// name or DNS name, "psk:NAME" for a key's; several separated by commas.
  static Result<AccessList> parse(std::string_view text);
  /// `ip`: 4 or 16 bytes; empty for a Unix socket. `identities`: Transport::identities().
  bool allows(const std::vector<std::uint8_t>& ip, const std::vector<std::string>& identities) const;
  bool empty() const { return rules_.empty() && identities_.empty(); }
  /// Whether the list has identities of this kind: certificates ("cert:") or keys ("psk:").
  bool names(std::string_view kind) const;

 private:
  struct Rule {
    std::vector<std::uint8_t> ip;  // empty: Unix sockets
    unsigned bits = 0;
  };
  static Result<Rule> parse_rule(std::string_view text);
  std::vector<Rule> rules_;
  std::vector<std::string> identities_;  // "cert:NAME", "psk:NAME"
};

}  // namespace spate::nbd
