// SPDX-License-Identifier: Apache-2.0
#include "rpc/authenticator.h"

#include <utility>

namespace spate::rpc {

job::Task<Result<Bytes>> Authenticator::hello(Call& call, ByteView body) {
  auto reply = co_await answer_hello(call, body);
  if (reply.code() == Errc::kUnauthenticated) refusals_.note(call, reply.error());
  co_return reply;
}

/// Nothing if the hello has no credential of munge.
job::Task<Result<std::optional<MungeIdentity>>> Authenticator::ask_munge(Call& call, const Received& hello,
                                                                         Proof asked) {
  Bytes credential = munge_ != nullptr ? acceptor_.munge_credential(hello, asked) : Bytes();
  if (credential.empty()) co_return std::optional<MungeIdentity>();
  SPATE_CO_TRY(auto munge_identity, co_await munge_->read(std::move(credential), call.stop));
  co_return std::optional<MungeIdentity>(std::move(munge_identity));
}

job::Task<Result<Bytes>> Authenticator::answer_hello(Call& call, ByteView body) {
  const std::shared_ptr<Peer> peer = call.peer;
  peer->handshake.reset();
  peer->authenticated = false;
  const Received received{call.message, body, call.header.version};
  const bmi::PeerInfo info = network_.peer_info(call.address);
  const std::optional<Proof> asked = entrances_.at(info.url, info.reached);
  if (!asked)
    co_return Error::told(Errc::kUnauthenticated, "reached at none of this server's addresses: " + info.reached);
  Handshake handshake;
  handshake.asked = *asked;
  SPATE_CO_TRY(handshake.munge_identity, co_await ask_munge(call, received, *asked));
  // checked again, since another hello may have been answered in the meantime
  if (peer->authenticated || peer->sealing) co_return Error::told(Errc::kProtocol, "a second hello");
  Bytes head;
  wire::encode_body(replies_.header(call), head);
  SPATE_CO_TRY(Bytes reply, acceptor_.hello(received, head, {info.reached, info.binding}, random_, handshake));
  if (handshake.user_key) {
    SPATE_CO_TRY(std::ignore, user_keys_.check(*handshake.user_key));
  }
  peer->version = handshake.version;
  peer->features = handshake.features;
  peer->handshake = std::move(handshake);
  co_return reply;
}

/// Logs a failed authenticate with the identity that the peer claims.
void Authenticator::note_failure(Call& call, ByteView body, const Error& error) {
  wire::AuthenticateRequest claim;
  wire::Reader reader(body);
  reader(claim);
  if (reader.decoder().ok()) call.peer->description = claim.description;
  if (!error.context().empty()) refusals_.note(call, error);
}

/// The peer has proved its key, so it is admitted from now on. It is authenticated only when all services have
/// accepted it.
void Authenticator::admit(Call& call, const Accepted& accepted) {
  Peer& peer = *call.peer;
  peer.admitted = true;  // before the services join it, which may take long
  network_.admit(peer.address);
  if (accepted.keys) network_.set_link_key(call.address, accepted.keys->link);
  if (accepted.protect == wire::Protect::kData) peer.bulk_seals = bulk_seals(*accepted.keys, End::kAcceptor);
  if (accepted.protect != wire::Protect::kNone) {
    peer.sealing.emplace(Sealing{Seals(*accepted.keys, End::kAcceptor), TagWindow(call.tag)});
    call.sealed = true;
  }
  peer.authenticated = false;
  peer.kind = accepted.request.kind;
  peer.incarnation = accepted.request.incarnation;
  peer.credential = accepted.request.credential;
  peer.user_key = accepted.user_key;
  peer.description = accepted.request.description;
  const bool server = peer.kind == wire::PeerKind::kServer;
  peer.client = server ? ClientId() : accepted.request.client;
  const bool numbered = server && accepted.request.client.value <= kMaxServerId;
  peer.server = numbered ? ServerId(static_cast<std::uint32_t>(accepted.request.client.value)) : ServerId();
}

/// Called after the peer has proved its key. So the reply, even a refusal, is sealed, and the client can trust it.
Result<void> Authenticator::check_user(const Accepted& accepted) const {
  if (!accepted.user_key) return {};
  SPATE_TRY(std::ignore, user_keys_.check(*accepted.user_key));
  if (covers(*accepted.user_key, accepted.request.credential)) return {};
  return not_covered(*accepted.user_key, accepted.request.credential);
}

job::Task<Result<Bytes>> Authenticator::authenticate(Call& call, ByteView body) {
  const std::shared_ptr<Peer> peer = call.peer;  // outlives a lost connection
  auto accepted = acceptor_.authenticate({call.message, body, call.header.version}, peer->handshake);
  if (!accepted) {
    note_failure(call, body, accepted.error());
    co_return std::move(accepted).error();
  }
  if (accepted->by_munge) accepted->request.credential = within(*accepted->user_key, accepted->request.credential);
  admit(call, *accepted);
  if (auto checked = check_user(*accepted); !checked) {
    refusals_.note(call, checked.error());
    co_return std::move(checked).error();
  }
  wire::AuthenticateReply reply;
  reply.fs_time = clock_.wall();
  reply.server_proof = accepted->server_proof;
  for (Service* service : services_) {
    auto joined = co_await service->join(*peer, accepted->request, reply);
    if (!joined) {
      if (joined.code() == Errc::kUnauthenticated) refusals_.note(call, joined.error());
      co_return std::move(joined).error();
    }
  }
  peer->client = reply.client;
  peer->epoch = reply.epoch;
  peer->authenticated = true;
  const bool opened = peer->kind == wire::PeerKind::kClient && !accepted->request.client && peer->client;
  if (opened) audit_.opened(call);
  Bytes out;
  wire::encode_body(reply, out);
  co_return out;
}

}  // namespace spate::rpc
