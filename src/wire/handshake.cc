// SPDX-License-Identifier: Apache-2.0
#include "wire/handshake.h"

#include "base/codec.h"

namespace spate::wire {
namespace {

/// The label with the zero that ends it.
Bytes labelled(std::string_view label) {
  Bytes out = to_bytes(as_bytes(label));
  out.push_back(std::byte{0});
  return out;
}

Bytes length_of(ByteView message) {
  Bytes out;
  Encoder(out).u32(static_cast<std::uint32_t>(message.size()));
  return out;
}

Key salt_of(FsId fs, const Key& file) {
  Bytes salt = labelled("spate 2 key");
  Encoder(salt).u64(fs.value);
  return hkdf_extract(salt, file);
}

Key base_of(const Key& key, const Nonce& client_nonce, const Nonce& server_nonce) {
  Bytes salt = to_bytes(client_nonce);
  salt.insert(salt.end(), server_nonce.begin(), server_nonce.end());
  return hkdf_extract(salt, key);
}

Key expand_key(const Key& base, std::string_view label) {
  Key key{};
  hkdf_expand(base, labelled(label), key);
  return key;
}

}  // namespace

FileKey::FileKey(FsId fs, const Key& file) : secret(salt_of(fs, file)) {}

FileKey::FileKey(FsId fs, const ClientKey& held) : secret(held.is_users() ? held.secret : salt_of(fs, held.secret)) {}

FileKey FileKey::for_user(ByteView restrictions) const {
  Bytes info = labelled("user key");
  Encoder(info).raw(restrictions);
  Key key{};
  hkdf_expand(secret, info, key);
  return FileKey(key);
}

Key FileKey::for_tls() const { return expand_key(secret, "tls"); }

KeyId FileKey::id() const {
  KeyId id{};
  hkdf_expand(secret, labelled("id"), id);
  return id;
}

Key FileKey::for_acceptor(KeyRole role, ServerId acceptor) const {
  Bytes info = labelled("auth");
  Encoder out(info);
  out.u8(static_cast<std::uint8_t>(role));
  out.u32(acceptor.value);
  Key key{};
  hkdf_expand(secret, info, key);
  return key;
}

Transcript::Transcript(const Key& key, const Nonce& client_nonce, const Nonce& server_nonce, ByteView hello,
                       ByteView reply, const Hash& binding)
    : base_(base_of(key, client_nonce, server_nonce)),
      state_(sha256({labelled("spate 2"), binding, length_of(hello), hello, length_of(reply), reply})) {}

Hash Transcript::server_mac() const { return hmac256(expand_key(base_, "server hello"), {state_}); }

Hash Transcript::finish(ByteView request) {
  state_ = sha256({state_, server_mac(), length_of(request), request});
  const Hash finished = hmac256(expand_key(base_, "client finished"), {state_});
  state_ = sha256({state_, finished});
  return finished;
}

SessionKeys Transcript::keys() const {
  const auto expand = [this](std::string_view label, MutableByteView out) {
    Bytes info = labelled(label);
    info.insert(info.end(), state_.begin(), state_.end());
    hkdf_expand(base_, info, out);
  };
  SessionKeys keys;
  expand("c seal", keys.initiator_seal);
  expand("s seal", keys.acceptor_seal);
  expand("c data", keys.initiator_data);
  expand("s data", keys.acceptor_data);
  expand("link", keys.link);
  return keys;
}

}  // namespace spate::wire
