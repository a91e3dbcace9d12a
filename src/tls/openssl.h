// SPDX-License-Identifier: Apache-2.0
// Parts for all users of OpenSSL here: owners of its objects, its errors, and how a certificate is used.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "base/result.h"

namespace spate::tls {

struct Free {
  void operator()(SSL_CTX* context) const { ::SSL_CTX_free(context); }
  void operator()(SSL* ssl) const { ::SSL_free(ssl); }
  void operator()(SSL_SESSION* session) const { ::SSL_SESSION_free(session); }
  void operator()(X509* certificate) const { ::X509_free(certificate); }
  void operator()(X509_CRL* list) const { ::X509_CRL_free(list); }
  void operator()(BIO* bio) const { ::BIO_free(bio); }
  void operator()(BIO_METHOD* method) const { ::BIO_meth_free(method); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

/// Returns kInvalidArgument, with `what` and OpenSSL's description of its first error. Clears OpenSSL's errors.
Error openssl_error(const std::string& what);

/// Uses the certificate and its private key. Only the key's owner and group may have the right to read its file. The
/// error names the file.
Result<void> use_certificate(SSL_CTX* context, const std::string& certificate, const std::string& key);

}  // namespace spate::tls
