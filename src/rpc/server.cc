// SPDX-License-Identifier: Apache-2.0
#include "rpc/server.h"

#include <unistd.h>

#include <algorithm>
#include <optional>

#include "job/deadline.h"
#include "log/fields.h"
#include "log/log.h"

namespace spate::rpc {
namespace {

/// Most refusals for lack of room that are being sent at once. Further requests get no answer.
constexpr std::size_t kMostRefusals = 1024;

/// Error codes that a server never gives a proper client. (A proper client does get kUnauthenticated, after its
/// connection was replaced.)
bool is_unusual(Errc code) {
  return code == Errc::kProtocol || code == Errc::kVersionMismatch || code == Errc::kWrongFileSystem;
}

/// The largest deadline that a request may ask for, ms: a day. Without a limit it could overflow the clock.
constexpr std::uint32_t kMaxDeadlineMs = 24U * 3600 * 1000;

/// Returns the version of a request that is long enough to hold version and operation. Every version has these two
/// fields at the same place. The rest of a message of an unknown version may mean anything.
std::optional<std::uint16_t> version_of(ByteView request) {
  Decoder in(request);
  const std::uint16_t version = in.u16();
  in.u16();
  return in.ok() ? std::optional(version) : std::nullopt;
}

/// A peer cannot change its identity on a connection; it needs another connection. (Version 1 repeats the handshake on
/// the same one.)
bool is_second_hello(const Call& call) {
  const Peer& peer = *call.peer;
  return call.header.op == wire::Op::kHello && (peer.authenticated || peer.sealing) &&
         peer.version >= wire::kTranscriptVersion;
}

AcceptorOptions acceptor_options(const ServerOptions& options) {
  return {options.fs,         options.server,   options.munge_beside_keys, options.client_key,
          options.server_key, options.features, options.allow_version_1,   options.protect};
}

/// False: the peer has not sealed this message. True: the seal is verified and removed.
bool unseal(Arrived& request) {
  if (!request.peer->sealing) return true;
  Sealing& sealing = *request.peer->sealing;
  const bmi::Tag tag = request.message.tag;
  Buffer& payload = request.message.payload;
  if (!sealing.window.open(tag) || !sealing.seals.genuine(tag, std::as_const(payload).view())) return false;
  sealing.window.take(tag);
  payload.shrink(payload.size() - Seals::kSize);
  request.sealed = true;
  return true;
}

Call call_of(const Arrived& request) {
  Call call;
  call.tag = request.message.tag;
  call.peer = request.peer;
  call.address = request.peer->bound;
  call.sealed = request.sealed;
  call.arrived = request.at;
  return call;
}

}  // namespace

Server::Server(ServerOptions options, job::NetworkContext& network, Random& random, metrics::Registry& metrics)
    : options_(std::move(options)),
      network_(network),
      metrics_(metrics),
      gate_(network.executor()),
      started_at_(network.executor().now()),
      audit_(options_.audit, options_.server, network, metrics),
      refusals_(network, metrics, audit_),
      slow_requests_(options_.slow_request, network, metrics),
      loads_(started_at_),
      peers_({options_.max_unauthenticated_requests, options_.max_requests_of_an_unauthenticated_peer}, network,
             refusals_),
      user_keys_(network.executor().clock()),
      munge_(options_.munge
                 ? std::make_unique<MungeDecoder>(options_.munge, options_.fs, options_.server, network.executor())
                 : nullptr),
      replies_(network, options_.incarnation, options_.map_version, stopping_),
      authenticator_(acceptor_options(options_), options_.entrances, network, random, replies_, refusals_, audit_,
                     user_keys_, munge_.get()),
      operations_(metrics),
      calls_(network),
      permits_(options_.max_requests, options_.max_aside),
      waiting_(options_.max_waiting_bytes, network.network().options().buffered_per_peer_bytes) {}

Server::~Server() = default;

void Server::add(Service& service) {
  authenticator_.add(service);
  operations_.add(service);
}

void Server::start() {
  permits_.on_freed([this] { begin_waiting(); });
  job::spawn(gate_, calls_.watch_connections(stopping_));
  network_.on_unexpected([this](bmi::UnexpectedMessage message) { on_request(std::move(message)); });
}

job::Task<void> Server::stop() {
  network_.on_unexpected({});
  stopping_.request_stop();
  waiting_.clear();
  co_await gate_.close();
}

void Server::on_request(bmi::UnexpectedMessage message) {
  const bmi::Address bound = network_.network().bound(message.peer);
  if (!bound) return;  // its connection is lost: nobody waits for an answer
  Arrived request;
  request.peer = peers_.at(message.peer, bound);
  request.message = std::move(message);
  request.at = network_.executor().now();
  // Checks seals on arrival, in the order in which requests were sealed: later, some wait while others go on.
  if (!unseal(request)) {
    return peers_.drop(*request.peer, "seal broken: a message that was altered, repeated, or not sealed");
  }
  // Unauthenticated peers have limits of their own. An unauthenticated peer's request is refused at once unless it is a
  // handshake.
  const bool first = goes_first(request) || !request.peer->admitted;
  if (first || (permits_.free() && waiting_.empty())) {
    begin(std::move(request));
  } else if (!waiting_.put(request) && refusing_ < kMostRefusals) {
    ++refusing_;
    if (!job::spawn(gate_, refuse_busy(std::move(request)))) --refusing_;
  }
}

/// Whether the request begins even if no permit is free: it ends soon or only waits aside, and others depend on it. The
/// caller's rights have not been checked yet.
bool Server::goes_first(const Arrived& request) const {
  Decoder in(std::as_const(request.message.payload).view());
  in.u16();  // version
  const auto op = static_cast<wire::Op>(in.u16());
  switch (op) {
    case wire::Op::kHello:
    case wire::Op::kAuthenticate:
    case wire::Op::kPing:
    case wire::Op::kKeepAlive:
    case wire::Op::kSessionEvents: return true;
    default: break;
  }
  const Operation* const operation = operations_.find(op);
  return operation != nullptr && operation->row.access == Access::kServersOnly;
}

void Server::begin(Arrived request) {
  permits_.take();
  if (!job::spawn(gate_, answer(std::move(request)))) permits_.give_back();
}

void Server::begin_waiting() {
  if (beginning_) return;  // a call that ended at once has freed its permit: the loop below goes on
  beginning_ = true;
  while (permits_.free() && !waiting_.empty()) begin(waiting_.take());
  beginning_ = false;
}

job::Task<void> Server::refuse_busy(Arrived request) {
  Call call = call_of(request);
  wire::Reader reader(std::as_const(request.message.payload).view());
  reader(call.header);
  if (reader.decoder().ok()) {
    job::DeadlineScope scope(network_.executor(), network_.executor().now() + kReplyGrace, stopping_);
    call.stop = scope.token();
    Result<Bytes> busy = Error::told(Errc::kBusy, "the server is overloaded: too many requests wait");
    co_await replies_.send(call, std::move(busy));
  }
  --refusing_;
}

job::Task<void> Server::answer(Arrived request) {
  Call call = call_of(request);
  if (network_.network().bound(request.message.peer) == call.address) {  // otherwise nobody waits for an answer
    call.permits = &permits_;
    const Peers::RequestCount counted(peers_, call.peer);
    if (peers_.has_room_for(*call.peer)) {
      co_await take(call, std::as_const(request.message.payload).view());
    } else {
      peers_.drop(*call.peer, "an unauthenticated peer with too many requests under way");
    }
  }
  permits_.give_back();
}

job::Task<void> Server::take(Call& call, ByteView message) {
  call.message = message;
  wire::Reader reader(message);
  reader(call.header);
  const auto version = version_of(message);
  if (version && !authenticator_.acceptor().speaks(*version)) {
    call.header.version = wire::kProtocolVersion;
    Result<Bytes> refusal = authenticator_.acceptor().version_error(*version);
    refusals_.note(call, refusal.error());
    co_await replies_.send(call, std::move(refusal));
  } else if (reader.decoder().ok() && is_second_hello(call)) {
    peers_.drop(*call.peer, "a second hello on a connection that is authenticated");
  } else if (reader.decoder().ok()) {
    co_await answer_known(call, message.last(reader.decoder().remaining()));
  } else {
    peers_.drop(*call.peer, "a request without a valid header");
  }
}

job::Task<void> Server::answer_known(Call& call, ByteView body) {
  const std::uint32_t wanted_ms = std::min(call.header.deadline_ms, kMaxDeadlineMs);
  const MonoTime deadline =
      wanted_ms == 0 ? MonoTime::never() : network_.executor().now() + std::chrono::milliseconds(wanted_ms);
  job::DeadlineScope scope(network_.executor(), deadline, stopping_);
  call.stop = scope.token();
  Calls::Entry entry(calls_, call, scope.source());
  const MonoTime begun = network_.executor().now();
  auto result = co_await execute(call, body, entry);
  slow_requests_.note(call, begun, result.code());
  note_load(call, !result);
  if (!result && is_unusual(result.code())) refusals_.note(call, result.error());
  if (result.code() == Errc::kCapabilityInvalid) audit_.refused(call, result.error());  // the io server has logged it
  SPATE_LOG("rpc", debug, "request op={} client={} status={} trace={}", op_name(call.header.op), call.header.client,
            result.code(), call.header.trace);
  // A stop has ended this request: send no answer. The sender learns of it when the connection is lost, and sends it
  // again.
  const bool cut_short = stopping_.stopped() && result.code() == Errc::kCancelled;
  if (!cut_short && !entry.abandoned()) co_await replies_.send(call, std::move(result));
}

Result<void> Server::check_header(const Call& call) const {
  const wire::RequestHeader& header = call.header;
  if (header.priority > wire::Priority::kBackground) {
    return Error::told(Errc::kNotSupported,
                       "priority " + std::to_string(static_cast<unsigned>(header.priority)) +
                           " is not known to this server: it has an older version than the client");
  }
  const bool any_fs = header.op == wire::Op::kHello && !header.fs;
  if (!any_fs && header.fs != options_.fs) {
    return Error::told(Errc::kWrongFileSystem,
                       "this server serves another file system than the one asked for; check the "
                       "client's spate.toml");
  }
  return {};
}

job::Task<Result<Bytes>> Server::execute(Call& call, ByteView body, Calls::Entry& entry) {
  SPATE_CO_TRY(std::ignore, check_header(call));
  switch (call.header.op) {
    case wire::Op::kHello: {
      auto reply = co_await authenticator_.hello(call, body);
      co_return reply;
    }
    case wire::Op::kAuthenticate: {
      auto result = co_await authenticator_.authenticate(call, body);
      auto passed = co_await let_pass(call, std::move(result));
      co_return passed;
    }
    case wire::Op::kPing: co_return ping(body);
    case wire::Op::kStats:
    case wire::Op::kListLoads:
    case wire::Op::kListFileLoads: {  // they tell who uses the file system, and how
      SPATE_CO_TRY(std::ignore, check_access(call, Access::kOperators));
      co_return watch(call.header.op);
    }
    default: break;
  }
  Operation* const operation = operations_.find(call.header.op);
  const bool elsewhere = gate_to_pass_ != nullptr && !gate_to_pass_->serves();
  if (operation == nullptr && elsewhere) co_return gate_to_pass_->elsewhere();
  if (operation == nullptr) {
    Error unknown(Errc::kNotSupported, "operation " + std::to_string(static_cast<unsigned>(call.header.op)) +
                                           " is not served by this server's roles");
    refusals_.note(call, unknown);
    co_return unknown;
  }
  const MonoTime begin = network_.executor().now();
  auto result = co_await run_row(call, body, operation->row, entry);
  if (gate_to_pass_ != nullptr && call.header.op != wire::Op::kGroupMessage) {
    result = co_await let_pass(call, std::move(result));
  }
  operation->latency.record(network_.executor().now() - begin);
  if (!result) operation->failed.add();
  co_return result;
}

/// The one place that decides what the holder of a key may ask. `access` is not kAnyone.
Result<void> Server::check_access(const Call& call, Access access) {
  const Peer& peer = *call.peer;
  if (!peer.authenticated) return Errc::kUnauthenticated;
  if (peer.user_key) {
    auto checked = user_keys_.check(*peer.user_key, access);
    // Programs try to write where they may only read, which is no attack.
    if (!checked && checked.code() != Errc::kReadOnly) refusals_.note(call, checked.error());
    return checked;
  }
  if (access != Access::kServersOnly || peer.kind == wire::PeerKind::kServer) return {};
  const Error refused = Error::told(Errc::kNotPermitted, "only servers (and fsck with the server key) may ask this");
  refusals_.note(call, refused);
  return refused;
}

job::Task<Result<Bytes>> Server::run_row(Call& call, ByteView body, const OperationRow& row, Calls::Entry& entry) {
  const Peer& peer = *call.peer;
  if (row.access != Access::kAnyone) {
    const bool known =
        peer.authenticated && (peer.kind == wire::PeerKind::kServer || peer.client == call.header.client);
    if (!known) co_return Errc::kUnauthenticated;
    SPATE_CO_TRY(std::ignore, check_access(call, row.access));
    calls_.supersede(entry);
  }
  auto result = co_await row.handler(call, body);
  if (!call.deed.empty()) audit_.operated(call, result ? Result<void>() : Result<void>(result.error()));
  co_return result;
}

/// Waits for the gate. A failed result must pass it, too, since it also depends on what the handler has seen.
job::Task<Result<Bytes>> Server::let_pass(const Call& call, Result<Bytes> result) {
  if (gate_to_pass_ == nullptr) co_return result;
  SPATE_CO_TRY(std::ignore, co_await gate_to_pass_->pass(call.needs_copies, call.stop));
  co_return result;
}

Result<Bytes> Server::ping(ByteView body) {
  auto request = wire::decode_body<wire::PingRequest>(body);
  if (!request) return Error(Errc::kProtocol, request.error().context());
  wire::PingReply reply;
  reply.payload = std::move(request->payload);
  reply.server = options_.server;
  reply.roles = options_.roles;
  if (gate_to_pass_ != nullptr) reply.roles.front() += " (" + gate_to_pass_->part() + ")";
  reply.pid = static_cast<std::uint64_t>(::getpid());
  reply.uptime_ms = static_cast<std::uint64_t>((network_.executor().now() - started_at_).count() / 1'000'000);
  reply.software = options_.software;
  Bytes out;
  wire::encode_body(reply, out);
  return out;
}

Bytes Server::watch(wire::Op op) const {
  const MonoTime now = network_.executor().now();
  Bytes out;
  if (op == wire::Op::kListLoads) {
    wire::encode_body(loads_.list(now), out);
  } else if (op == wire::Op::kListFileLoads) {
    wire::encode_body(loads_.list_files(now), out);
  } else {
    wire::StatsReply reply;
    metrics_.snapshot().encode(reply.snapshot);
    wire::encode_body(reply, out);
  }
  return out;
}

/// Requests of unauthenticated peers are not counted, since they could displace the counts of clients.
void Server::note_load(const Call& call, bool failed) {
  const auto kind = load_kind(call.header.op);
  if (!kind || !call.peer->authenticated) return;
  const MonoTime now = network_.executor().now();
  const Served served{*kind, failed, now - call.arrived, call.moved_bytes};
  loads_.note(*call.peer, served, now);
  if (call.file) loads_.note_file(call.file, served, now);
}

}  // namespace spate::rpc
