// SPDX-License-Identifier: Apache-2.0
// The functions that libspate-tls.so exports; see tls/late_context.h.
#include "tls/late_context.h"
#include "tls/openssl_context.h"

extern "C" {

__attribute__((visibility("default"))) const char* spate_tls_interface() { return spate::tls::kInterface; }

/// The caller owns the context.
__attribute__((visibility("default"))) spate::tls::Context* spate_tls_make(const spate::tls::Settings* settings) {
  return spate::tls::make_context(*settings).release();
}

}  // extern "C"
