// SPDX-License-Identifier: Apache-2.0
// The parts of a server's URL.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace spate::config {

struct UrlParts {
  std::string_view scheme;
  std::string_view rest;
};

/// Both are empty if it is no URL.
UrlParts split_url(std::string_view url);
/// Whether "host:port" follows in URLs with this scheme.
bool has_host(std::string_view scheme);
/// The host of "host:port" or "[v6]:port"; nothing if the text is malformed.
std::string_view host_of(std::string_view rest);
/// Whether the host name means the machine on which it is used.
bool is_loopback(std::string_view host);
/// Whether other machines cannot reach the URL.
bool is_local_url(std::string_view url);

/// "tcp://host:port", "ofi+PROVIDER://host:port", "shm://name", "shm:///path", "sim://number".
Result<void> check_url(std::string_view url);

/// Whether the text is one of letters, digits, '.', '_' and '-', and not empty.
bool is_name(std::string_view text);

}  // namespace spate::config
