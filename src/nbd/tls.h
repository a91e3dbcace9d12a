// SPDX-License-Identifier: Apache-2.0
// TLS by OpenSSL: certificates or pre-shared keys. NBD's clients decide on names, versions and when TLS begins; what
// does not depend on that is in tls/openssl.h.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/bytes.h"
#include "nbd/transport.h"

namespace spate::nbd {

/// The server's certificate and keys, and what it asks clients for. Either may be empty.
struct TlsFiles {
  /// A folder with server-cert.pem and server-key.pem; with ca-cert.pem clients must show a certificate signed by it.
  std::string folder;
  /// A file with lines "name:hex", as psktool(1) writes them. Empty lines and those that begin with '#' are skipped. At
  /// least 16 bytes a key.
  std::string keys;
};

using TlsKeys = std::unordered_map<std::string, Bytes>;
/// kInvalidArgument; the error names the line.
Result<TlsKeys> parse_tls_keys(std::string_view text);

/// TLS 1.2 and later. Immutable; outlives its transports.
class TlsContext {
 public:
  virtual ~TlsContext() = default;
  /// The server's side of a connection on a non-blocking socket, which the caller owns. The handshake is part of the
  /// first reads and writes.
  virtual Result<std::unique_ptr<Transport>> accept(int socket) = 0;
};

/// The error names the file.
Result<std::unique_ptr<TlsContext>> make_tls(const TlsFiles& files);

}  // namespace spate::nbd
