// SPDX-License-Identifier: Apache-2.0
// Sentences for what fails in TLS.
#pragma once

#include <string>

namespace spate::tls {

/// Why a connection failed: a sentence about the other side. `code`: OpenSSL's. Empty: it was only lost.
std::string describe_failure(unsigned long code, bool connects, bool by_key);

/// Whether OpenSSL's code says that the other side's bytes are no TLS.
bool is_no_tls(unsigned long code);

/// Says why the other side's certificate is refused: "has expired". `code`: X509_V_ERR_*. `host`: the host that the
/// certificate should name.
std::string describe_certificate_fault(long code, const std::string& host);

}  // namespace spate::tls
