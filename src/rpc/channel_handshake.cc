// SPDX-License-Identifier: Apache-2.0
// The handshake: hello and authenticate, at any of the server's URLs. See rpc/channel.h.
#include "job/deadline.h"
#include "log/fields.h"
#include "log/log.h"
#include "rpc/channel.h"

namespace spate::rpc {
namespace {

/// Anybody may answer a hello. After a refusal with one of these codes the next URL is tried, if there is one.
bool is_refusal(Errc code) {
  return code == Errc::kVersionMismatch || code == Errc::kWrongFileSystem || code == Errc::kUnauthenticated ||
         code == Errc::kNotSupported;
}

/// An election takes less.
constexpr Duration kRefusalTimeout = std::chrono::seconds(5);

/// Codes that only delay a handshake. Any other code would be taken for the end of the file system's session.
bool is_delay(Errc code) {
  return code == Errc::kBusy || code == Errc::kTimeout || code == Errc::kCancelled || ServerLink::is_lost(code);
}

/// Whether this side may speak version 1 with a server that speaks no later one. Version 1 has no keys of users.
bool may_speak_version_1(const Identity& identity) {
  const bool users = identity.fresh_key || (identity.key && identity.key->is_users());
  return identity.policy.allow_version_1 && identity.policy.protect < wire::Protect::kData && !users;
}

}  // namespace

/// Adds the server's name to an error of the server. An error of the network has it already.
Error Channel::refusal(Error error) const {
  if (ServerLink::is_lost(error.code()) || error.code() == Errc::kTimeout || error.code() == Errc::kCancelled)
    return error;
  return std::move(error).within(name());
}

job::Task<Result<void>> Channel::meet(MonoTime deadline) {
  SPATE_CO_TRY(std::ignore, link_.resolve());
  job::DeadlineScope scope(network_.executor(), deadline, job::StopToken());
  auto met = co_await ensure_handshake(HandshakeGoal::kHello, scope.token());
  const bool silent = !met && (ServerLink::is_lost(met.code()) || met.code() == Errc::kTimeout);
  if (silent) co_return no_answer(met.code());
  co_return met;
}

job::Task<Result<void>> Channel::handshake(HandshakeGoal goal, job::StopToken stop) {
  const std::optional<ClientKey> tried = identity_.key;
  const MonoTime begun = network_.executor().now();
  auto result = co_await handshake_at_any_url(goal, stop);
  // The leading server of a group may refuse the key. Another server then answers that it does not lead.
  const bool by_one =
      !result && refused_ && refused_->last >= begun && refused_->error.code() == Errc::kUnauthenticated;
  if (result.code() != Errc::kUnauthenticated && !by_one) co_return result;
  if (identity_.key == tried) take_newer_key();  // otherwise another channel has replaced it meanwhile
  if (identity_.key != tried) result = co_await handshake_at_any_url(goal, stop);
  co_return result;
}

/// Takes the key from the key file if the file has another one now.
void Channel::take_newer_key() {
  if (!identity_.newer_key) return;
  const Result<ClientKey> key = identity_.newer_key();
  if (!key) SPATE_LOG("rpc", warn, "key refused, and no other key is available: {}", key.error());
  if (!key || identity_.key == *key) return;
  SPATE_LOG("rpc", info, "using the new key from the key file");
  identity_.key = *key;
}

/// Tries the handshake at each of the server's URLs.
job::Task<Result<void>> Channel::handshake_at_any_url(HandshakeGoal goal, job::StopToken stop) {
  std::uint16_t version = wire::kProtocolVersion;
  Result<void> result;
  for (std::size_t urls = link_.options().urls.size(); urls > 0;) {
    bool wrong_server = false;
    result = co_await handshake_once(goal, version, wrong_server, stop);
    if (result) break;
    if (result.code() == Errc::kVersionMismatch && may_speak_version_1(identity_) && version > 1) {
      SPATE_LOG("rpc", warn, "using handshake version 1, which is weaker peer={}", log::Quoted{name()});
      version = 1;
      continue;
    }
    if (!wrong_server) break;
    // The caller reports the failure at the last URL. It is no error that another server leads.
    if (result.code() != Errc::kNotPrimary) {
      if (!failed_proof_ || strength_of(asked_) >= strength_of(failed_proof_->asked))
        failed_proof_ = FailedProof{asked_, result.error()};
      if (urls > 1) SPATE_LOG("rpc", warn, "{} url={}", result.error(), log::Quoted{peer_info().url});
      note_refusal(result.error());
    }
    link_.close_and_turn_to_next();
    --urls;
  }
  if (result) refused_.reset();
  if (result) failed_proof_.reset();  // it was no weaker one
  if (!result && refused_ && refused_->last - refused_->first >= kRefusalTimeout) co_return refused_->error;
  co_return result;
}

/// Remembers a refusal by a server of a group. If the leader refuses, the other servers still answer that they do not
/// lead, so the last answer does not tell. One refusal is not trusted: anybody may listen at the address of a server
/// that has ended. A refusal that lasts is.
void Channel::note_refusal(const Error& error) {
  if (!link_.is_group()) return;
  const MonoTime now = network_.executor().now();
  if (!refused_ || now - refused_->last > kRefusalTimeout) refused_ = Refused{now, now, error};
  refused_->last = now;
}

/// A new handshake needs a new connection, so this one is given up.
void Channel::leave_old_connection() {
  link_.leave();
  if (spent_ && link_.bound() == spent_) network_.network().disconnect(spent_);
  spent_ = {};
}

/// A client's offer depends on the address, so if the addresses differ, the connection comes first. A server offers
/// the same everywhere.
job::Task<Result<Channel::Dialled>> Channel::dial(TraceId trace, job::StopToken stop) {
  const AskedProofs& asked = identity_.policy.asked;
  const std::vector<std::string>& urls = link_.options().urls;
  if (identity_.kind == wire::PeerKind::kServer || urls.empty() || asked.alike(urls))
    co_return Dialled{link_.address(), urls.empty() ? asked.usual : asked.at(urls.front())};
  SPATE_CO_TRY(const bmi::Address bound, co_await link_.connect(trace, stop));
  co_return Dialled{bound, asked.at(network_.network().peer_info(bound).url)};
}

/// A failed proof may be an attacker's work, who wants to see a weaker one.
Result<void> Channel::check_strength(Proof asked) const {
  if (!failed_proof_ || strength_of(asked) >= strength_of(failed_proof_->asked)) return {};
  return Error::told(failed_proof_->error.code(),
                     name() + " asks for " + std::string(name_of(asked)) + " at " + peer_info().url +
                         ", and for more at an address where this has failed: " + failed_proof_->error.context());
}

/// Nobody has answered the hello, or with an error.
Error Channel::no_hello(Error error, bool& wrong_server) const {
  wrong_server = is_refusal(error.code());
  if (!wrong_server && !is_delay(error.code())) error = Error(Errc::kConnectionLost, name());
  return refusal(std::move(error));
}

/// `wrong_server`: set if the process that answered is not the wanted server.
job::Task<Result<void>> Channel::handshake_once(HandshakeGoal goal, std::uint16_t version, bool& wrong_server,
                                                job::StopToken stop) {
  leave_old_connection();
  CallOptions options;
  options.trace = TraceId(random_.next());
  auto dialled = co_await dial(options.trace, stop);
  asked_ = dialled ? dialled->asked : identity_.policy.asked.at(peer_info().url);
  if (!dialled) co_return no_hello(std::move(dialled).error(), wrong_server);
  if (auto strong = check_strength(asked_); !strong) {
    wrong_server = true;
    co_return strong;
  }
  SPATE_CO_TRY(std::optional<ClientKey> key, key_to_offer(identity_, asked_, link_.options().server));
  Initiator initiator(identity_, std::move(key), link_.options().server, version, random_);
  const Bytes hello = initiator.hello(link_.header_of(wire::Op::kHello, options));
  Sending sending;
  sending.op = wire::Op::kHello;
  sending.trace = options.trace;
  sending.address = dialled->address;
  sending.head = hello;
  sending.timeout = link_.options().group_silence / 2;
  auto raw = co_await link_.exchange(sending, stop);
  if (!raw) co_return no_hello(std::move(raw).error(), wrong_server);
  const bmi::Address bound = link_.bound();
  if (!bound) co_return Error(Errc::kConnectionLost, name());
  const bmi::PeerInfo info = network_.network().peer_info(bound);
  const auto met = initiator.welcome(std::as_const(raw->message).view(), info.reached, info.binding);
  if (!met) {
    wrong_server = true;
    co_return Error::told(met.code(), name() + " " + met.error().context());
  }
  if (!identity_.fs) identity_.fs = initiator.fs();
  if (goal == HandshakeGoal::kHello) co_return Result<void>();
  auto result = co_await authenticate(initiator, bound, stop);
  wrong_server = link_.is_group() && result.code() == Errc::kNotPrimary;
  co_return result;
}

job::Task<Result<void>> Channel::authenticate(Initiator& initiator, bmi::Address address, job::StopToken stop) {
  wire::AuthenticateRequest request;
  request.kind = identity_.kind;
  request.client = identity_.kind == wire::PeerKind::kServer ? ClientId(identity_.server.value) : identity_.client;
  request.incarnation = ++incarnation_sent_;
  request.credential = identity_.credential;
  request.description = identity_.description;
  request.ticket = identity_.ticket;
  CallOptions options;
  options.trace = TraceId(random_.next());
  auto connection = std::make_shared<Connection>();
  connection->address = address;
  connection->version = initiator.version();
  connection->features = initiator.features();
  connection->client = identity_.client;
  connection->epoch = identity_.epoch;
  const Bytes message = initiator.authenticate(link_.header_of(wire::Op::kAuthenticate, options), std::move(request));
  if (initiator.protect() != wire::Protect::kNone) connection->seals.emplace(*initiator.keys(), End::kInitiator);
  if (initiator.protect() == wire::Protect::kData)
    connection->bulk_seals = bulk_seals(*initiator.keys(), End::kInitiator);
  // The key is set before the server can ask for bulk connections, which prove it.
  if (initiator.keys()) network_.network().set_link_key(address, initiator.keys()->link);
  Sending sending;
  sending.op = wire::Op::kAuthenticate;
  sending.trace = options.trace;
  sending.address = address;
  sending.head = message;
  sending.seals = connection->seals ? &*connection->seals : nullptr;
  sending.seal_request = false;
  sending.timeout = link_.options().group_silence * 2;
  spent_ = address;
  auto raw = co_await link_.exchange(sending, stop);
  if (!raw) co_return refusal(std::move(raw).error());
  auto accepted = wire::decode_body<wire::AuthenticateReply>(raw->body);
  if (!accepted) co_return std::move(accepted).error().within(name());
  if (!initiator.proven(*accepted)) {
    co_return Error::told(Errc::kUnauthenticated, name() + " did not prove the key: not a server of this file system");
  }
  join(*accepted, connection);
  co_return Result<void>();
}

void Channel::join(const wire::AuthenticateReply& accepted, const ConnectionPtr& connection) {
  if (identity_.kind == wire::PeerKind::kClient && accepted.answer_slots > 0) {  // sent by a meta server: the session
    connection->client = identity_.client = accepted.client;
    connection->epoch = identity_.epoch = accepted.epoch;
    identity_.ticket = accepted.ticket;
    identity_.answer_slots = accepted.answer_slots;
    identity_.lease_ms = accepted.lease_ms;
    identity_.fs_clock_offset_ns = accepted.fs_time.ns - network_.executor().now().since_start.count();
  }
  link_.use(connection);
  features_ = connection->features;
}

}  // namespace spate::rpc
