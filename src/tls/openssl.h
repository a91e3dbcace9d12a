// SPDX-License-Identifier: Apache-2.0
// Parts for all users of OpenSSL here: owners of its objects, its errors, and the checks of secret files.
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

/// kInvalidArgument: `what`, and OpenSSL's description of its first error; it forgets all.
Error openssl_error(const std::string& what);

/// kPermissionDenied if others may read or change the file: a user who may read a secret can impersonate this process,
/// and its owner can change it. `others_may_not`: bits of the mode; a group that may read a private key is common.
Result<void> check_secret(const std::string& file, mode_t others_may_not);

/// Uses the certificate and its private key. The error names the file.
Result<void> use_certificate(SSL_CTX* context, const std::string& certificate, const std::string& key);

}  // namespace spate::tls
