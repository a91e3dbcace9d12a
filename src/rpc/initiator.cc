// SPDX-License-Identifier: Apache-2.0
#include "rpc/initiator.h"

namespace spate::rpc {
namespace {

wire::KeyRole role_of(wire::PeerKind kind) {
  return kind == wire::PeerKind::kServer ? wire::KeyRole::kServer : wire::KeyRole::kClient;
}

std::string_view scheme_of(std::string_view url) { return url.substr(0, url.find("://")); }

}  // namespace

Initiator::Initiator(const Identity& identity, std::optional<ClientKey> key, ServerId wanted, std::uint16_t version,
                     Random& random)
    : identity_(identity), key_(std::move(key)), wanted_(wanted), version_(version) {
  random.fill(nonce_);
}

Bytes Initiator::hello(wire::RequestHeader header) {
  wire::HelloRequest request;
  request.oldest_version = request.newest_version = version_;
  request.features = identity_.features;
  request.fs = identity_.fs;
  request.client_nonce = nonce_;
  header.version = version_;
  header.op = wire::Op::kHello;
  hello_.clear();
  wire::encode_body(header, hello_);
  wire::encode_body(request, hello_);
  if (version_ < wire::kTranscriptVersion) return hello_;
  wire::HelloOffer offer;
  offer.server = wanted_;
  if (key_) {
    offer.key_id = key_->is_users() ? key_->issuer : wire::FileKey(identity_.fs, *key_).id();
    offer.user_key = key_->restrictions;
    offer.protect = identity_.policy.protect;
  } else {
    offer.suites = 0;
    offer.protect = wire::Protect::kNone;
  }
  wire::encode_body(offer, hello_);
  return hello_;
}

Result<void> Initiator::welcome(ByteView reply, std::string_view reached, const Hash& binding) {
  wire::ReplyHeader header;
  wire::Reader reader(reply);
  reader(header);
  if (!reader.decoder().ok()) return Error::told(Errc::kProtocol, "a reply that cannot be read");
  const ByteView body = reply.last(reader.decoder().remaining());
  if (version_ < wire::kTranscriptVersion) {
    SPATE_TRY(reply_, wire::decode_body<wire::HelloReply>(body));
    return check_reply();
  }
  SPATE_TRY(auto both, (wire::decode_body_and<wire::HelloReply, wire::HelloAnswer>(body)));
  reply_ = both.first;
  answer_ = std::move(both.second);
  SPATE_TRY(std::ignore, check_reply());
  return check_answer(reply, reached, binding);
}

Result<void> Initiator::check_reply() const {
  if (wanted_ && reply_.server != wanted_) {
    return Error::told(Errc::kWrongFileSystem, "says that it is server " + std::to_string(reply_.server.value));
  }
  if (reply_.version != version_) {
    return Error::told(Errc::kVersionMismatch,
                       "wants to speak protocol " + std::to_string(reply_.version) + ", which was not offered");
  }
  if (identity_.fs && reply_.fs != identity_.fs)
    return Error::told(Errc::kWrongFileSystem, "serves another file system");
  if (reply_.key_required && !key_) {
    return Error::told(Errc::kUnauthenticated, "requires a key; set client_key_file");
  }
  return {};
}

/// Uses nothing else of the reply until its server_mac is verified.
Result<void> Initiator::check_answer(ByteView reply, std::string_view reached, const Hash& binding) {
  if (!key_) {
    const bool bare = identity_.policy.protect < wire::Protect::kData || !wire::needs_seals(reached);
    if (answer_.suite == wire::Suite::kNone && bare) return {};
    return Error::told(Errc::kUnauthenticated, "requires a key; set client_key_file");
  }
  const Key key = wire::FileKey(identity_.fs, *key_).for_acceptor(role_of(identity_.kind), reply_.server);
  transcript_.emplace(key, nonce_, reply_.server_nonce, hello_, reply.first(reply.size() - sizeof(wire::Proof)),
                      binding);
  if (answer_.suite != wire::Suite::kUmac64 || !equal_secret(transcript_->server_mac(), answer_.server_mac)) {
    return Error::told(Errc::kUnauthenticated, "did not prove the key: wrong key file, or somebody else listens there");
  }
  const bool met =
      identity_.policy.behind_nat ? scheme_of(answer_.reached) == scheme_of(reached) : answer_.reached == reached;
  if (!met) {
    return Error::told(Errc::kUnauthenticated, "was dialled at " + std::string(reached) + " and reached at " +
                                                   answer_.reached + ": a relay, or address translation (auth.nat)");
  }
  const wire::Protect least = wire::needs_seals(reached) ? identity_.policy.protect : wire::Protect::kNone;
  const wire::Protect most = wire::needs_seals(reached) ? wire::Protect::kData : wire::Protect::kNone;
  if (answer_.protect < least || answer_.protect > most) {
    return Error::told(Errc::kUnauthenticated, "does not protect the connection as it should");
  }
  if ((reply_.features & ~identity_.features) != 0)
    return Error::told(Errc::kProtocol, "has features that were not offered");
  return {};
}

Bytes Initiator::authenticate(wire::RequestHeader header, wire::AuthenticateRequest request) {
  request.server_nonce = reply_.server_nonce;
  if (version_ < wire::kTranscriptVersion && key_) {
    request.proof = wire::auth_proof(key_->secret, request, nonce_);
  }
  header.version = version_;
  header.op = wire::Op::kAuthenticate;
  Bytes message;
  wire::encode_body(header, message);
  wire::encode_body(request, message);
  if (version_ < wire::kTranscriptVersion) return message;
  wire::AuthenticateFinish finish;
  if (transcript_) {
    finish.finished = transcript_->finish(message);
    keys_ = transcript_->keys();
  }
  wire::encode_body(finish, message);
  return message;
}

bool Initiator::proven(const wire::AuthenticateReply& reply) const {
  // An initiator with a key refuses a server that asks for none, since any process could answer so.
  if (version_ >= wire::kTranscriptVersion || !key_) return true;
  return equal_secret(wire::server_proof(key_->secret, reply_.server_nonce, nonce_), reply.server_proof);
}

}  // namespace spate::rpc
