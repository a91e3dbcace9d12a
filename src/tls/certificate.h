// SPDX-License-Identifier: Apache-2.0
// Reads the facts of a certificate.
#pragma once

#include "tls/openssl.h"
#include "tls/stream.h"

namespace spate::tls {

/// Empty if it cannot be read.
std::optional<Facts> facts_of(const X509* certificate);

}  // namespace spate::tls
