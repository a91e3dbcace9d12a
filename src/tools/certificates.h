// SPDX-License-Identifier: Apache-2.0
// Certificates of the etcd cluster: its own authority, and for each machine one certificate as server and client.
#pragma once

#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/result.h"

namespace spate::tools {

/// Names of the files in a folder of certificates (meta.coordinator_tls), PEM. The authority's key is only needed to
/// make further certificates.
inline constexpr const char* kAuthorityFile = "ca.pem";
inline constexpr const char* kAuthorityKeyFile = "ca-key.pem";
inline constexpr const char* kCertificateFile = "cert.pem";
inline constexpr const char* kCertificateKeyFile = "key.pem";

/// Makes an authority in the folder, which exists. Keys have mode 0600.
Result<void> make_authority(const std::string& folder);
/// The same with a key that is derived from the file system's server key: machines that hold the server key make the
/// same authority, and send each other no secret.
Result<void> derive_authority(const std::string& folder, const Key& server_key);
/// Makes a certificate, signed by the folder's authority, for these host names and IP addresses. `hosts` is not empty.
Result<void> make_certificate(const std::string& folder, const std::vector<std::string>& hosts);

}  // namespace spate::tools
