// SPDX-License-Identifier: Apache-2.0
// What spate-export serves, and where: from its command line, or from the section of a server with the role block.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/load.h"
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
  bool read_only = false;              // for all sources, on the command line
  std::vector<std::string> addresses;  // TCP; empty: 127.0.0.1, unless a Unix socket is asked for
  std::uint16_t port = kDefaultPort;
  bool port_given = false;
  std::string unix_path;
  std::string file_system;            // spate.toml, or its folder; empty: the one used last
  std::vector<std::string> settings;  // --set
  /// Everything else comes from this server's section in spate.toml (options_of_server()); 0: from the command line.
  std::uint32_t server = 0;
  /// Has server-cert.pem, server-key.pem, and perhaps ca-cert.pem, to ask clients for certificates.
  std::string tls_folder;
  std::string tls_keys;              // pre-shared keys
  bool insecure = false;             // serve other machines without TLS
  std::uint32_t send_file_from = 0;  // 0: the default
  std::uint16_t threads = 1;         // 1..256 loops, each with its own connections
  /// If a source cannot be opened, true: retry, and serve the others meanwhile; false: fail.
  bool keep_trying = false;
  bool verbose = false;
  bool quiet = false;
};

/// kInvalidArgument with what is wrong. kCancelled for --help.
Result<ExportOptions> parse_export_options(const std::vector<std::string>& arguments);
std::string_view export_usage();

/// The settings that override spate.toml: those of the environment, then options.settings.
Result<std::vector<config::Override>> settings_of(const ExportOptions& options);

/// Completes `given` (its file system, settings and server) with the sections [block] and [[exports]]; sets up the log
/// as that server's. kNotFound: no such server; kInvalidArgument: it does not have the role, or the file has mistakes.
Result<ExportOptions> options_of_server(const ExportOptions& given);

}  // namespace spate::nbd
