// SPDX-License-Identifier: Apache-2.0
#include "wire/session_messages.h"

namespace spate::wire {

Mac auth_proof(const Key& key, const AuthenticateRequest& request, const Nonce& client_nonce) {
  AuthenticateRequest unsigned_request = request;
  unsigned_request.proof = {};
  Bytes message = to_bytes(as_bytes("spate client proof"));
  message.insert(message.end(), client_nonce.begin(), client_nonce.end());
  encode_body(unsigned_request, message);
  return hmac(key, message);
}

Mac server_proof(const Key& key, const Nonce& server_nonce, const Nonce& client_nonce) {
  Bytes message = to_bytes(as_bytes("spate server proof"));
  message.insert(message.end(), server_nonce.begin(), server_nonce.end());
  message.insert(message.end(), client_nonce.begin(), client_nonce.end());
  return hmac(key, message);
}

}  // namespace spate::wire
