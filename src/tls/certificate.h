// SPDX-License-Identifier: Apache-2.0
// Reads the facts of certificates and revocation lists.
#pragma once

#include "tls/openssl.h"
#include "tls/stream.h"

namespace spate::tls {

/// Facts about the certificate of `context` and its revocation lists. Empty if the certificate cannot be read.
std::optional<Facts> facts_of(SSL_CTX* context);

}  // namespace spate::tls
