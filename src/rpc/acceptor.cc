// SPDX-License-Identifier: Apache-2.0
#include "rpc/acceptor.h"

#include <algorithm>
#include <string>

namespace spate::rpc {
namespace {

Error wrong_key(wire::PeerKind kind) {
  return Error::told(Errc::kUnauthenticated, kind == wire::PeerKind::kServer
                                                 ? "wrong server key: use the key file of this file system"
                                                 : "wrong client key: use the key file of this file system");
}

Error issuer_unknown() {
  return Error::told(Errc::kUnauthenticated,
                     "the user's key was made from a client key that this file system does not have: use the key of "
                     "this file system, or ask its operator for a new one (spate key issue)");
}

Error another_proof(Proof asked) {
  return Error::told(Errc::kUnauthenticated, "this address asks clients for " + std::string(name_of(asked)) +
                                                 ", not for a key: use the spate.toml of this file system");
}

bool needs_key(Proof asked) { return asked == Proof::kKey || asked == Proof::kMunge; }

/// A key for reading only gets no batches, since a batch may hold changes that its holder must not make.
std::uint64_t features_for(const Handshake& handshake) {
  const bool reads = handshake.user_key && handshake.user_key->read_only;
  return reads ? ~std::uint64_t{wire::kFeatureBatches} : ~std::uint64_t{0};
}

Result<void> check_protection(const wire::HelloOffer& offer) {
  if (wire::holds(offer.suites, wire::Suite::kUmac64) && offer.protect <= wire::Protect::kData) return {};
  return Error::told(Errc::kNotSupported, "the protection that the peer wants is not known to this server");
}

bool is_kind(wire::PeerKind kind) { return kind == wire::PeerKind::kClient || kind == wire::PeerKind::kServer; }

}  // namespace

Acceptor::Acceptor(const AcceptorOptions& options) : options_(options) {
  const auto add = [&](wire::KeyRole role, const Key& file) {
    const wire::FileKey key(options_.fs, file);
    keys_.push_back(OneKey{role, file, key, key.id(), key.for_acceptor(role, options_.server)});
  };
  const auto add_all = [&](wire::KeyRole role, const KeyRing& files) {
    add(role, files.used);
    for (const Key& file : files.others) add(role, file);
  };
  add_all(wire::KeyRole::kClient, options_.client_key);
  add_all(wire::KeyRole::kServer, options_.server_key);
}

bool Acceptor::speaks(std::uint16_t version) const {
  return version == wire::kProtocolVersion ||
         (version == 1 && options_.allow_version_1 && options_.protect < wire::Protect::kData);
}

std::string Acceptor::spoken() const {
  return std::to_string(options_.allow_version_1 ? 1 : wire::kProtocolVersion) + " to " +
         std::to_string(wire::kProtocolVersion);
}

Error Acceptor::version_error(std::uint16_t version) const {
  return Error::told(Errc::kVersionMismatch, "the server speaks protocol " + spoken() +
                                                 ", the request is of protocol " + std::to_string(version) +
                                                 ": upgrade the older one");
}

/// A client that names no key.
Result<void> Acceptor::use_no_key(Proof asked) const {
  if (asked == Proof::kMunge)
    return Error::told(Errc::kUnauthenticated, "this address asks clients for a credential of munge (servers.auth)");
  if (asked == Proof::kKey || options_.protect == wire::Protect::kData)
    return Error::told(Errc::kUnauthenticated, "a key is required; set client_key_file");
  return {};
}

Result<void> Acceptor::choose_key(const wire::HelloOffer& offer, Handshake& handshake) const {
  if (offer.server && offer.server != options_.server) {
    return Error::told(Errc::kWrongFileSystem, "this is server " + std::to_string(options_.server.value) +
                                                   ", not server " + std::to_string(offer.server.value));
  }
  if (offer.key_id == kMungeKeyId) return use_munge_identity(offer, handshake);
  if (offer.key_id == wire::KeyId{}) return use_no_key(handshake.asked);
  const auto found = std::ranges::find(keys_, offer.key_id, &OneKey::id);
  if (found == keys_.end() && !offer.user_key.empty()) return issuer_unknown();
  if (found == keys_.end()) {  // the id does not tell which role's key the peer has
    return Error::told(Errc::kUnauthenticated,
                       "wrong client key, or wrong server key: use the key files of this file system");
  }
  // Servers prove their key at each address.
  if (found->role == wire::KeyRole::kClient && handshake.asked != Proof::kKey) return another_proof(handshake.asked);
  SPATE_TRY(std::ignore, check_protection(offer));
  handshake.role = found->role;
  handshake.key = found->key;
  if (!offer.user_key.empty()) {
    SPATE_TRY(std::ignore, derive_user_key(*found, offer.user_key, handshake));
  }
  handshake.protect = std::max({offer.protect, options_.protect, wire::Protect::kControl});
  return {};
}

bool Acceptor::takes_munge(Proof asked) const {
  return asked == Proof::kMunge || (asked == Proof::kKey && options_.munge_beside_keys);
}

Bytes Acceptor::munge_credential(const Received& message, Proof asked) const {
  if (message.version < wire::kTranscriptVersion || !takes_munge(asked)) return {};
  auto both = wire::decode_body_and<wire::HelloRequest, wire::HelloOffer>(message.body);
  if (!both || both->second.key_id != kMungeKeyId) return {};
  const bool here = (!both->second.server || both->second.server == options_.server) &&
                    (!both->first.fs || both->first.fs == options_.fs);
  return here ? std::move(both->second.user_key) : Bytes();
}

/// The secret in the credential is known to the client and to this server only, as the key of a user would be.
Result<void> Acceptor::use_munge_identity(const wire::HelloOffer& offer, Handshake& handshake) const {
  if (!handshake.munge_identity || !takes_munge(handshake.asked))
    return Error::told(Errc::kUnauthenticated, "this address admits nobody by munge (auth.munge, servers.auth)");
  SPATE_TRY(std::ignore, check_protection(offer));
  ClientKey held;
  held.secret = handshake.munge_identity->secret;
  held.restrictions = offer.user_key;
  handshake.role = wire::KeyRole::kClient;
  handshake.user_key = handshake.munge_identity->key;
  handshake.key = wire::FileKey(options_.fs, held).for_acceptor(wire::KeyRole::kClient, options_.server);
  handshake.protect = std::max({offer.protect, options_.protect, wire::Protect::kControl});
  return {};
}

Result<void> Acceptor::derive_user_key(const OneKey& issuer, ByteView restrictions, Handshake& handshake) const {
  if (issuer.role != wire::KeyRole::kClient) return issuer_unknown();
  SPATE_TRY(handshake.user_key, decode_user_key(restrictions));
  handshake.key = issuer.of_fs.for_user(restrictions).for_acceptor(issuer.role, options_.server);
  return {};
}

Result<Bytes> Acceptor::hello(const Received& message, ByteView head, const InboundConnection& where, Random& random,
                              Handshake& handshake) const {
  wire::HelloRequest request;
  wire::HelloOffer offer;
  wire::Reader reader(message.body);
  reader(request);
  if (message.version >= wire::kTranscriptVersion) reader(offer);
  if (const auto whole = reader.decoder().finish(wire::HelloRequest::kName); !whole)
    return Error(Errc::kProtocol, whole.error().context());
  if (!speaks(message.version)) return version_error(message.version);
  handshake.version = message.version;
  if (request.oldest_version > message.version || request.newest_version < message.version) {
    return Error::told(Errc::kVersionMismatch, "the client speaks protocol " + std::to_string(request.oldest_version) +
                                                   " to " + std::to_string(request.newest_version) + ", the server " +
                                                   spoken() + ": upgrade the older one");
  }
  if (request.fs && request.fs != options_.fs)
    return Error::told(Errc::kWrongFileSystem, "this server serves another file system; check the client's spate.toml");
  if (message.version >= wire::kTranscriptVersion) {
    SPATE_TRY(std::ignore, choose_key(offer, handshake));
  }
  handshake.client_nonce = request.client_nonce;
  random.fill(handshake.server_nonce);
  wire::HelloReply reply;
  reply.version = message.version;
  reply.features = handshake.features = request.features & options_.features & features_for(handshake);
  reply.fs = options_.fs;
  reply.server = options_.server;
  reply.key_required = needs_key(handshake.asked);
  reply.server_nonce = handshake.server_nonce;
  Bytes body;
  wire::encode_body(reply, body);
  if (message.version < wire::kTranscriptVersion) return body;
  wire::HelloAnswer answer;
  answer.reached = std::string(where.url);
  if (handshake.role) {
    answer.suite = wire::Suite::kUmac64;
    if (!wire::needs_seals(where.url)) handshake.protect = wire::Protect::kNone;
    answer.protect = handshake.protect;
  }
  wire::encode_body(answer, body);
  if (!handshake.role) return body;
  Bytes signed_part = to_bytes(head);
  signed_part.insert(signed_part.end(), body.begin(), body.end() - sizeof(wire::Proof));
  handshake.transcript.emplace(handshake.key, handshake.client_nonce, handshake.server_nonce, message.whole,
                               signed_part, where.binding);
  std::ranges::copy(handshake.transcript->server_mac(), body.end() - sizeof(wire::Proof));
  return body;
}

Result<Accepted> Acceptor::authenticate(const Received& message, std::optional<Handshake>& handshake) const {
  if (!handshake || message.version != handshake->version) {
    handshake.reset();
    return Errc::kUnauthenticated;
  }
  Handshake used = *std::move(handshake);
  handshake.reset();
  if (used.version >= wire::kTranscriptVersion) return prove(message, used);
  return prove_version_1(message, used);
}

Result<Accepted> Acceptor::prove(const Received& message, Handshake& handshake) const {
  auto both = wire::decode_body_and<wire::AuthenticateRequest, wire::AuthenticateFinish>(message.body);
  if (!both) return Error(Errc::kProtocol, both.error().context());
  Accepted accepted;
  accepted.request = std::move(both->first);
  if (!is_kind(accepted.request.kind)) return Errc::kProtocol;
  if (accepted.request.server_nonce != handshake.server_nonce) return Errc::kUnauthenticated;
  const bool server = accepted.request.kind == wire::PeerKind::kServer;
  if (!handshake.role) {
    // The peer named no key. A client may do that at an address that asks for none; a server must always prove its key.
    if (server) return wrong_key(accepted.request.kind);
    return accepted;
  }
  if (server != (*handshake.role == wire::KeyRole::kServer)) return wrong_key(accepted.request.kind);
  accepted.user_key = handshake.user_key;
  accepted.by_munge = handshake.munge_identity.has_value();
  const Hash finished = handshake.transcript->finish(message.whole.first(message.whole.size() - sizeof(wire::Proof)));
  if (!equal_secret(finished, both->second.finished)) return wrong_key(accepted.request.kind);
  accepted.keys = handshake.transcript->keys();
  accepted.protect = handshake.protect;
  return accepted;
}

Result<Accepted> Acceptor::prove_version_1(const Received& message, const Handshake& handshake) const {
  auto request = wire::decode_body<wire::AuthenticateRequest>(message.body);
  if (!request) return Error(Errc::kProtocol, request.error().context());
  if (!is_kind(request->kind)) return Errc::kProtocol;
  if (request->server_nonce != handshake.server_nonce) return Errc::kUnauthenticated;
  const bool server = request->kind == wire::PeerKind::kServer;
  const wire::KeyRole role = server ? wire::KeyRole::kServer : wire::KeyRole::kClient;
  if (!server && handshake.asked == Proof::kMunge) return another_proof(handshake.asked);
  auto found = std::ranges::find_if(keys_, [&](const OneKey& key) {
    return key.role == role &&
           equal_secret(wire::auth_proof(key.file, *request, handshake.client_nonce), request->proof);
  });
  if (found == keys_.end()) {
    if (server || needs_key(handshake.asked)) return wrong_key(request->kind);
    found = keys_.begin();
  }
  Accepted accepted;
  accepted.server_proof = wire::server_proof(found->file, handshake.server_nonce, handshake.client_nonce);
  accepted.request = *std::move(request);
  return accepted;
}

}  // namespace spate::rpc
