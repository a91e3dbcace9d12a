// SPDX-License-Identifier: Apache-2.0
// The command line of spate-export.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "nbd/listener.h"

namespace spate::nbd {

struct SourceParams {
  std::string name;    // of the export
  std::string source;  // a local path, or "spate:/path"
  bool read_only = false;
  std::string allow;  // access list (access.h); empty: everybody
};

struct ExportOptions {
  std::vector<SourceParams> sources;
  bool read_only = false;              // of all sources, when the command line is read
  std::vector<std::string> addresses;  // TCP; empty: 127.0.0.1, unless a Unix socket is asked for
  std::uint16_t port = kDefaultPort;
  bool port_given = false;
  std::string unix_path;
  std::string file_system;            // spate.toml, or its folder; empty: the one that is used last
  std::vector<std::string> settings;  // --set
  std::uint32_t server = 0;           // all else comes from its spate.toml (role.h); 0: from the command line
  std::string tls_folder;  // with server-cert.pem, server-key.pem, and ca-cert.pem to ask clients for certificates
  std::string tls_keys;    // pre-shared keys
  bool insecure = false;   // without TLS off loopback
  std::uint32_t send_file_from = 0;  // 0: the default
  std::uint16_t threads = 1;         // 1..256: loops, each with its own connections
  /// A source that cannot be opened is tried again and again, and the others are served meanwhile; else it ends.
  bool keep_trying = false;
  bool verbose = false;
  bool quiet = false;
};

/// kInvalidArgument with what is wrong. kCancelled for --help.
Result<ExportOptions> parse_export_options(const std::vector<std::string>& arguments);
std::string_view export_usage();

}  // namespace spate::nbd
