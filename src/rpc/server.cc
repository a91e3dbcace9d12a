// SPDX-License-Identifier: Apache-2.0
#include "rpc/server.h"

#include <unistd.h>

#include <algorithm>

#include "job/deadline.h"
#include "log/fields.h"

namespace spate::rpc {
namespace {

constexpr std::size_t kMaxContextBytes = 512;
/// The way on from a link that leads out of the file system goes to a program, whole: a link's target and the rest of a
/// path.
constexpr std::size_t kMaxLinkContextBytes = kMaxSymlinkBytes + kMaxPathBytes;
constexpr std::size_t kPeersBetweenPrunings = 64;
/// Requests under way at once that are told that there is no room for them; beyond it they are not answered.
constexpr std::size_t kMostRefusals = 1024;

/// What a proper client is never told. (kUnauthenticated is: each time its connection was made anew below it.)
bool is_strange(Errc code) {
  return code == Errc::kProtocol || code == Errc::kVersionMismatch || code == Errc::kWrongFileSystem;
}

/// The largest deadline that a request may ask for, ms: a day; an absurd one must not overflow the clock.
constexpr std::uint32_t kMaxDeadlineMs = 24U * 3600 * 1000;

/// For the reply of a request whose deadline has passed.
constexpr Duration kReplyGrace = std::chrono::seconds(1);

/// The first two fields of a header, version and operation, stay where they are in every version; the rest of one that
/// is not spoken may mean anything. Nothing when the request is too short for both.
std::optional<std::uint16_t> version_of(ByteView request) {
  Decoder in(request);
  const std::uint16_t version = in.u16();
  in.u16();
  return in.ok() ? std::optional(version) : std::nullopt;
}

/// Who wants to be somebody else does so on a connection of its own. (Version 1 greets again on the same one.)
bool is_second_hello(const Call& call) {
  const Peer& peer = *call.peer;
  return call.header.op == wire::Op::kHello && (peer.authenticated || peer.sealing) &&
         peer.version >= wire::kTranscriptVersion;
}

AcceptorOptions acceptor_options(const ServerOptions& options) {
  return {options.fs,         options.server,   options.key_required,    options.client_key,
          options.server_key, options.features, options.allow_version_1, options.protect};
}

/// False: the message is none that the peer has sealed. Else it is without its seal from now on.
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
  return call;
}

}  // namespace

/// A row of the table with what is measured of it.
struct Server::Operation {
  Operation(metrics::Registry& registry, wire::Op op, const OperationRow& row_in)
      : row(row_in),
        failed(registry, "spate_rpc_failed_total", {{"op", std::string(op_name(op))}}),
        latency(registry, "spate_rpc_request_ns", {{"op", std::string(op_name(op))}}) {}
  OperationRow row;
  metrics::Counter failed;
  metrics::Histogram latency;
};

/// Counts a request while it is under way, if its sender is a stranger when it comes.
class Server::StrangersRequest {
 public:
  StrangersRequest(Server& server, std::shared_ptr<Peer> peer)
      : server_(server), peer_(peer->admitted ? nullptr : std::move(peer)) {
    count(1);
  }
  StrangersRequest(const StrangersRequest&) = delete;
  StrangersRequest& operator=(const StrangersRequest&) = delete;
  ~StrangersRequest() { count(-1); }

 private:
  void count(int more) {
    if (peer_ == nullptr) return;
    peer_->under_way += static_cast<std::uint32_t>(more);
    server_.strangers_under_way_ += static_cast<std::size_t>(more);
  }
  Server& server_;
  const std::shared_ptr<Peer> peer_;  // null: no stranger
};

Server::Server(ServerOptions options, job::NetworkContext& network, Random& random, metrics::Registry& metrics)
    : options_(std::move(options)),
      acceptor_(acceptor_options(options_)),
      network_(network),
      random_(random),
      metrics_(metrics),
      gate_(network.executor()),
      started_at_(network.executor().now()),
      calls_(network),
      places_(options_.max_requests, options_.max_aside),
      waiting_(options_.max_waiting_bytes, network.network().options().buffered_per_peer_bytes),
      refused_(metrics, "spate_rpc_refused_total"),
      refused_log_(network.executor().clock()) {}

Server::~Server() = default;

void Server::add(Service& service) {
  services_.push_back(&service);
  for (const auto& [op, row] : service.operations()) {
    const bool fresh = operations_.emplace(op, std::make_unique<Operation>(metrics_, op, row)).second;
    SPATE_CHECK(fresh);  // an operation belongs to one role
  }
}

void Server::start() {
  places_.on_freed([this] { begin_waiting(); });
  job::spawn(gate_, calls_.watch_connections(stopping_));
  network_.on_unexpected([this](bmi::UnexpectedMessage message) { on_request(std::move(message)); });
}

job::Task<void> Server::stop() {
  network_.on_unexpected({});
  stopping_.request_stop();
  waiting_.clear();
  co_await gate_.close();
}

std::vector<std::shared_ptr<Peer>> Server::peers() const {
  std::vector<std::shared_ptr<Peer>> list;
  for (const auto& [address, peer] : peers_) {
    if (peer->authenticated) list.push_back(peer);
  }
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a->address < b->address; });
  return list;
}

void Server::on_request(bmi::UnexpectedMessage message) {
  const bmi::Address bound = network_.network().bound(message.peer);
  if (!bound) return;  // its connection is gone: there is nobody to answer
  Arrived request;
  request.peer = peer_of(message.peer, bound);
  request.message = std::move(message);
  // Now, in the order in which the requests were sealed: some wait for a place while those behind them go on.
  if (!unseal(request)) {
    return drop_peer(*request.peer, "seal broken: a message that was altered, repeated, or not sealed");
  }
  // A stranger's requests have bounds of their own, and are refused at once unless it greets.
  const bool first = goes_first(request) || !request.peer->admitted;
  if (first || (places_.free() && waiting_.empty())) {
    begin(std::move(request));
  } else if (!waiting_.put(request) && refusing_ < kMostRefusals) {
    ++refusing_;
    if (!job::spawn(gate_, refuse_busy(std::move(request)))) --refusing_;
  }
}

/// What ends soon, or only waits aside, and others depend on. It has not been checked yet who asks.
bool Server::goes_first(const Arrived& request) const {
  Decoder in(std::as_const(request.message.payload).view());
  in.u16();  // version
  const auto op = static_cast<wire::Op>(in.u16());
  switch (op) {
    case wire::Op::kHello:
    case wire::Op::kAuthenticate:
    case wire::Op::kPing:
    case wire::Op::kKeepAlive:
    case wire::Op::kLockEvents: return true;
    default: break;
  }
  const auto found = operations_.find(op);
  return found != operations_.end() && found->second->row.access == Access::kServersOnly;
}

void Server::begin(Arrived request) {
  places_.take();
  if (!job::spawn(gate_, answer(std::move(request)))) places_.give_back();
}

void Server::begin_waiting() {
  if (beginning_) return;  // a call that ended at once has freed its place: the loop below goes on
  beginning_ = true;
  while (places_.free() && !waiting_.empty()) begin(waiting_.take());
  beginning_ = false;
}

job::Task<void> Server::refuse_busy(Arrived request) {
  Call call = call_of(request);
  wire::Reader reader(std::as_const(request.message.payload).view());
  reader(call.header);
  if (reader.decoder().ok()) {
    job::DeadlineScope scope(network_.executor(), network_.executor().now() + kReplyGrace, stopping_);
    call.stop = scope.token();
    Result<Bytes> busy = Error(Errc::kBusy, "the server has more requests than it can keep");
    co_await reply(call, std::move(busy));
  }
  --refusing_;
}

job::Task<void> Server::answer(Arrived request) {
  Call call = call_of(request);
  if (network_.network().bound(request.message.peer) == call.address) {  // else there is nobody to answer
    call.places = &places_;
    const StrangersRequest counted(*this, call.peer);
    if (takes_one_more(*call.peer)) {
      co_await take(call, std::as_const(request.message.payload).view());
    } else {
      drop_peer(*call.peer, "a stranger with too many requests under way");
    }
  }
  places_.give_back();
}

job::Task<void> Server::take(Call& call, ByteView message) {
  call.message = message;
  wire::Reader reader(message);
  reader(call.header);
  const auto version = version_of(message);
  if (version && !acceptor_.speaks(*version)) {
    call.header.version = wire::kProtocolVersion;
    Result<Bytes> refusal = acceptor_.version_error(*version);
    note_refused(call, refusal.error());
    co_await reply(call, std::move(refusal));
  } else if (reader.decoder().ok() && is_second_hello(call)) {
    drop_peer(*call.peer, "a second hello on a connection that is authenticated");
  } else if (reader.decoder().ok()) {
    co_await answer_known(call, message.last(reader.decoder().remaining()));
  } else {
    drop_peer(*call.peer, "a request without a valid header");
  }
}

job::Task<void> Server::answer_known(Call& call, ByteView body) {
  const std::uint32_t wanted_ms = std::min(call.header.deadline_ms, kMaxDeadlineMs);
  const MonoTime deadline =
      wanted_ms == 0 ? MonoTime::never() : network_.executor().now() + std::chrono::milliseconds(wanted_ms);
  job::DeadlineScope scope(network_.executor(), deadline, stopping_);
  call.stop = scope.token();
  Calls::Entry entry(calls_, call, scope.source());
  auto result = co_await execute(call, body, entry);
  if (!result && is_strange(result.code())) note_refused(call, result.error());
  SPATE_LOG("rpc", debug, "request op={} client={} status={} trace={}", op_name(call.header.op), call.header.client,
            result.code(), call.header.trace);
  // What a stop has cut short is not answered: its sender learns of it by the loss of the connection, and asks again.
  const bool cut_short = stopping_.stopped() && result.code() == Errc::kCancelled;
  if (!cut_short && !entry.abandoned()) co_await reply(call, std::move(result));
}

bool Server::takes_one_more(Peer& peer) {
  if (peer.under_way > options_.max_requests_of_a_stranger) return false;
  if (peer.admitted || strangers_under_way_ <= options_.max_stranger_requests) return true;
  Peer* const busiest = busiest_stranger();
  if (busiest == nullptr || busiest == &peer) return busiest == nullptr;
  drop_peer(*busiest, "too many requests of strangers under way, and it has most of them");
  return true;
}

Peer* Server::busiest_stranger() const {
  Peer* busiest = nullptr;
  for (const auto& [address, peer] : peers_) {
    if (peer->admitted || peer->under_way == 0) continue;
    if (busiest == nullptr || peer->under_way > busiest->under_way) busiest = peer.get();
  }
  return busiest;
}

/// Its requests under way keep `peer`; those without any must not use it afterwards.
void Server::drop_peer(Peer& peer, std::string_view why) {
  refused_.add();
  if (const auto more = refused_log_.admit()) {
    SPATE_LOG("rpc", warn, "peer dropped: {} peer={} description={}{}", why,
              log::Quoted{network_.network().peer_info(peer.bound).url}, log::Quoted{peer.description}, *more);
  }
  peer.authenticated = false;
  network_.network().disconnect(peer.bound);
  peers_.erase(bmi::Address(peer.address));
}

void Server::note_refused(const Call& call, const Error& error) {
  refused_.add();
  if (const auto more = refused_log_.admit()) {
    SPATE_LOG("rpc", warn, "request refused: {} peer={} op={} description={} trace={}{}", error.message(),
              log::Quoted{network_.network().peer_info(call.address).url}, static_cast<unsigned>(call.header.op),
              log::Quoted{call.peer->description}, call.header.trace, *more);
  }
}

Result<void> Server::check_header(const Call& call) const {
  const wire::RequestHeader& header = call.header;
  if (header.priority > wire::Priority::kBackground) {
    return Error(Errc::kNotSupported, "priority " + std::to_string(static_cast<unsigned>(header.priority)) +
                                          " is not known to this server: it has an older version than the client");
  }
  const bool any_fs = header.op == wire::Op::kHello && !header.fs;
  if (!any_fs && header.fs != options_.fs) {
    return Error(Errc::kWrongFileSystem,
                 "this server serves another file system than the one asked for; check the "
                 "client's spate.toml");
  }
  return {};
}

job::Task<Result<Bytes>> Server::execute(Call& call, ByteView body, Calls::Entry& entry) {
  auto checked = check_header(call);
  if (!checked) co_return std::move(checked).error();
  switch (call.header.op) {
    case wire::Op::kHello: co_return hello(call, body);
    case wire::Op::kAuthenticate: {
      auto result = co_await authenticate(call, body);
      co_return result;
    }
    case wire::Op::kPing: co_return ping(body);
    case wire::Op::kStats:
      if (!call.peer->authenticated) co_return Errc::kUnauthenticated;
      co_return stats();
    default: break;
  }
  const auto found = operations_.find(call.header.op);
  if (found == operations_.end()) {
    Error unknown(Errc::kNotSupported, "operation " + std::to_string(static_cast<unsigned>(call.header.op)) +
                                           " is not served by this server's roles");
    note_refused(call, unknown);
    co_return unknown;
  }
  Operation& operation = *found->second;
  const MonoTime begin = network_.executor().now();
  auto result = co_await run_row(call, body, operation.row, entry);
  operation.latency.record(network_.executor().now() - begin);
  if (!result) operation.failed.add();
  co_return result;
}

job::Task<Result<Bytes>> Server::run_row(Call& call, ByteView body, const OperationRow& row, Calls::Entry& entry) {
  const Peer& peer = *call.peer;
  if (row.access != Access::kAnyone) {
    const bool known =
        peer.authenticated && (peer.kind == wire::PeerKind::kServer || peer.client == call.header.client);
    if (!known) co_return Errc::kUnauthenticated;
    if (row.access == Access::kServersOnly && peer.kind != wire::PeerKind::kServer) {
      co_return Error(Errc::kNotPermitted, "only servers (and fsck with the server key) may ask this");
    }
    calls_.supersede(entry);
  }
  auto result = co_await row.handler(call, body);
  co_return result;
}

/// What a reply begins with when there is nothing to report.
wire::ReplyHeader Server::reply_header(const Call& call) const {
  wire::ReplyHeader header;
  header.version = call.header.version;
  header.incarnation = options_.incarnation;
  header.map_version = options_.map_version;
  return header;
}

Result<Bytes> Server::hello(Call& call, ByteView body) {
  Peer& peer = *call.peer;
  peer.handshake.reset();
  peer.authenticated = false;
  Bytes head;
  wire::encode_body(reply_header(call), head);
  Handshake handshake;
  SPATE_TRY(Bytes reply, acceptor_.hello({call.message, body, call.header.version}, head,
                                         network_.network().peer_info(call.address).reached, random_, handshake));
  peer.version = handshake.version;
  peer.features = handshake.features;
  peer.handshake = std::move(handshake);
  return reply;
}

job::Task<Result<Bytes>> Server::authenticate(Call& call, ByteView body) {
  const std::shared_ptr<Peer> peer = call.peer;  // outlives a lost connection
  auto accepted = acceptor_.authenticate({call.message, body, call.header.version}, peer->handshake);
  if (!accepted) {
    wire::AuthenticateRequest claim;  // who it says it is: for whoever reads the log
    wire::Reader reader(body);
    reader(claim);
    if (reader.decoder().ok()) peer->description = claim.description;
    if (!accepted.error().context().empty()) note_refused(call, accepted.error());
    co_return std::move(accepted).error();
  }
  peer->admitted = true;  // before the services are asked, who may take their time
  network_.network().admit(peer->address);
  if (accepted->keys) network_.network().set_link_key(call.address, accepted->keys->link);
  if (accepted->protect == wire::Protect::kData) peer->bulk_seals = bulk_seals(*accepted->keys, End::kAcceptor);
  if (accepted->protect != wire::Protect::kNone) {
    peer->sealing.emplace(Sealing{Seals(*accepted->keys, End::kAcceptor), TagWindow(call.tag)});
    call.sealed = true;
  }
  const wire::AuthenticateRequest& request = accepted->request;
  peer->authenticated = false;  // whoever it was before: it is nobody until all services have let it in
  peer->kind = request.kind;
  peer->incarnation = request.incarnation;
  peer->credential = request.credential;
  peer->description = request.description;
  peer->client = request.client;
  wire::AuthenticateReply reply;
  reply.fs_time = network_.executor().clock().wall();
  reply.server_proof = accepted->server_proof;
  for (Service* service : services_) {
    auto joined = co_await service->join(*peer, request, reply);
    if (!joined) {
      if (joined.code() == Errc::kUnauthenticated) note_refused(call, joined.error());
      co_return std::move(joined).error();
    }
  }
  peer->client = reply.client;
  peer->epoch = reply.epoch;
  peer->authenticated = true;
  Bytes out;
  wire::encode_body(reply, out);
  co_return out;
}

Result<Bytes> Server::ping(ByteView body) {
  auto request = wire::decode_body<wire::PingRequest>(body);
  if (!request) return Error(Errc::kProtocol, request.error().context());
  wire::PingReply reply;
  reply.payload = std::move(request->payload);
  reply.server = options_.server;
  reply.roles = options_.roles;
  reply.pid = static_cast<std::uint64_t>(::getpid());
  reply.uptime_ms = static_cast<std::uint64_t>((network_.executor().now() - started_at_).count() / 1'000'000);
  reply.software = options_.software;
  Bytes out;
  wire::encode_body(reply, out);
  return out;
}

Result<Bytes> Server::stats() {
  wire::StatsReply reply;
  metrics_.snapshot().encode(reply.snapshot);
  Bytes out;
  wire::encode_body(reply, out);
  return out;
}

std::shared_ptr<Peer> Server::peer_of(bmi::Address address, bmi::Address bound) {
  std::shared_ptr<Peer>& peer = peers_[address];
  if (peer != nullptr && peer->bound == bound) return peer;
  peer = std::make_shared<Peer>();  // a new connection must greet again; running calls keep the old one
  peer->address = address;
  peer->bound = bound;
  if (peers_.size() >= peers_after_pruning_ + kPeersBetweenPrunings) forget_gone_peers();
  return peers_[address];
}

void Server::forget_gone_peers() {
  std::erase_if(peers_, [this](const auto& entry) {
    return entry.second.use_count() == 1 && !network_.network().peer_info(entry.first).connected;
  });
  peers_after_pruning_ = peers_.size();
}

job::Task<void> Server::reply(Call& call, Result<Bytes> result) {
  wire::ReplyHeader header = reply_header(call);
  const auto fail = [&header](const Error& error) {
    header.status = error.code();
    header.context =
        error.context().substr(0, error.code() == Errc::kCrossDevice ? kMaxLinkContextBytes : kMaxContextBytes);
  };
  if (!result) fail(result.error());
  Bytes head;
  wire::encode_body(header, head);
  if (result && head.size() + result->size() > call.header.reply_room) {
    fail(Error(Errc::kMessageTooBig, "the reply is larger than the room that the client has posted"));
    result = Errc::kMessageTooBig;
    head.clear();
    wire::encode_body(header, head);
  }
  std::array<bmi::Segment, 3> segments{bmi::Segment::of(ByteView(head)), bmi::Segment{}, bmi::Segment{}};
  std::size_t count = 1;
  const ByteView body = result ? ByteView(*result) : ByteView();
  if (!body.empty()) segments[count++] = bmi::Segment::of(body);
  Umac64::Code code{};
  if (call.sealed) {
    code = call.peer->sealing->seals.seal(call.tag, {head, body});
    segments[count++] = bmi::Segment::of(ByteView(code));
  }
  bmi::Message message;
  message.peer = call.address;
  message.tag = call.tag;
  message.segments = bmi::SegmentList(segments.data(), count);
  message.receiver_ready = true;  // the caller posted room before it asked
  job::NetworkOp send(network_);
  send.post_send(message);
  // What a request waited for in vain until its deadline is told in the time that its sender has kept for that.
  std::optional<job::DeadlineScope> late;
  if (call.stop.stopped())
    late.emplace(network_.executor(), network_.executor().now() + kReplyGrace, job::StopToken(stopping_));
  const auto sent = co_await send.wait(late ? late->token() : call.stop);
  if (!sent)
    SPATE_LOG("rpc", debug, "reply not sent op={} error={} trace={}", op_name(call.header.op), sent.error(),
              call.header.trace);
}

}  // namespace spate::rpc
