// SPDX-License-Identifier: Apache-2.0
// Target: what an ofi URL says.
#pragma once

#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace spate::bmi::ofi {

struct Target {
  enum class Kind : std::uint8_t {
    kInternet,  // node and service: a numeric address and a port
    kName,      // node: a name on this host (the shm provider)
    kRaw,       // address: as the provider gives it
    kAny,       // for listening: whatever the provider chooses
  };
  Kind kind = Kind::kInternet;
  std::string suffix;    // of the URL's scheme: "tcp"
  std::string provider;  // libfabric's name: "tcp;ofi_rxm"
  std::string node;
  std::string service;
  Bytes address;
};

/// "ofi+PROVIDER://HOST:PORT" (HOST an address in numbers, IPv6 in brackets, or localhost), "ofi+shm://NAME",
/// "ofi+PROVIDER://@HEX" (an address as the provider gives it), "ofi+PROVIDER://*". kBadAddress otherwise.
Result<Target> parse_url(std::string_view url);

/// The URL of an endpoint: `text` is "host:port" or a name, where the provider has such; else the address in hex.
std::string url_of(std::string_view suffix, std::string_view text, ByteView address);

/// The bytes by which libfabric knows the target's address (kInternet, kName, kRaw).
Bytes fabric_address(const Target& target);

}  // namespace spate::bmi::ofi
