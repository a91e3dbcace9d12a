// SPDX-License-Identifier: Apache-2.0
#include "rpc/channel.h"

#include <algorithm>
#include <array>

#include "log/fields.h"
#include "log/log.h"

namespace spate::rpc {
namespace {

/// Tags of one request: the reply's, then one for each slot (wire::ReadRequest), so their low bits are left free.
constexpr unsigned kTagBitsPerRequest = 13;
constexpr int kMaxGreetingsPerCall = 3;

bool lost(Errc code) { return code == Errc::kConnectionLost || code == Errc::kUnreachable || code == Errc::kProtocol; }

/// The server is told a tenth less than what is left, at most a second: what it waited for in vain, it can still say.
/// ms, 1 up.
std::uint32_t told_deadline(Duration left) {
  const auto left_ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
  const auto kept_ms = std::clamp<std::int64_t>(left_ms / 10, 0, 1000);
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(left_ms - kept_ms, 1, 1'000'000'000));
}

}  // namespace

class Channel::Under {
 public:
  explicit Under(Channel& channel) : channel_(channel) { ++channel_.calls_; }
  Under(const Under&) = delete;
  Under& operator=(const Under&) = delete;
  ~Under() { --channel_.calls_; }

 private:
  Channel& channel_;
};

Channel::Channel(ChannelOptions options, job::NetworkContext& network, Identity& identity, Random& random)
    : options_(std::move(options)),
      network_(network),
      identity_(identity),
      random_(random),
      greeting_done_(network.executor()),
      incarnation_sent_(options_.incarnations_above),
      next_tag_(random.next() << kTagBitsPerRequest) {}

std::string Channel::name() const {
  const std::string url = options_.urls.empty() ? "no address" : options_.urls.front();
  return options_.server ? "server " + std::to_string(options_.server.value) + " (" + url + ")" : "server at " + url;
}

bmi::PeerInfo Channel::peer_info() const { return peer_ ? network_.network().peer_info(*peer_) : bmi::PeerInfo{}; }

Result<void> Channel::resolve() {
  if (peer_) return {};
  auto address = network_.network().lookup(options_.urls);
  if (!address) return std::move(address).error().within(name());
  peer_ = *address;
  return {};
}

void Channel::note_url() {
  const std::string url = peer_info().url;
  // A module may tell of the address as it was resolved: only another one of the list is another one.
  const bool elsewhere = url != options_.urls.front() && std::ranges::find(options_.urls, url) != options_.urls.end();
  if (!elsewhere) {
    return_at_ = MonoTime::never();
    return_wait_ = Duration(0);
    return;
  }
  if (return_at_ != MonoTime::never()) return;
  return_wait_ = std::clamp(return_wait_ * 2, options_.first_return, options_.longest_return);
  return_at_ = network_.executor().now() + return_wait_;
}

bmi::Tag Channel::next_tag() {
  next_tag_ += 1ULL << kTagBitsPerRequest;
  return bmi::Tag(next_tag_);
}

/// Whether the session is still the one that the request is bound to.
Result<void> Channel::check_session(const CallOptions& options) const {
  if (!options.only_in || *options.only_in == identity_.session()) return {};
  return options.only_in->client == identity_.client ? Errc::kSessionFenced : Errc::kSessionUnknown;
}

job::Task<Result<RawReply>> Channel::call(wire::Op op, ByteView body, CallOptions options) {
  job::Executor& executor = network_.executor();
  job::DeadlineScope scope(executor, options.deadline, options.stop);
  if (!options.trace) options.trace = TraceId(random_.next());
  auto resolved = resolve();
  if (!resolved) co_return std::move(resolved).error();
  return_to_first_url();
  const Under under(*this);
  Duration backoff = options_.first_backoff;
  int greetings_left = kMaxGreetingsPerCall;
  bool may_have_run = false;  // sent before, and nothing heard of it
  Error last(Errc::kTimeout, name());
  std::optional<Error> excuse;  // the server lives, and said what it waited for in vain
  while (!scope.token().stopped()) {
    Result<void> greeted;
    bool answered = false;
    if (options.greet) greeted = co_await ensure_greeted(scope.token());
    if (greeted) greeted = check_session(options);  // the greeting may have begun another one
    Result<RawReply> reply = Errc::kUnauthenticated;
    if (greeted) {
      reply = co_await attempt(op, body, options, scope.token(), &answered);
      if (reply) co_return reply;
      if (answered && reply.code() == Errc::kTimeout && !reply.error().context().empty())
        excuse = reply.error();
      else if (!scope.token().stopped())
        excuse.reset();
      may_have_run =
          may_have_run || lost(reply.code()) || reply.code() == Errc::kTimeout || reply.code() == Errc::kCancelled;
    } else {
      reply = std::move(greeted).error();
    }
    const Errc code = reply.code();
    if (code == Errc::kUnauthenticated && greeted && --greetings_left > 0) {
      greeted_ = false;  // the server does not know this connection: it was made anew below us
      continue;
    }
    // kCancelled by the server: a newer greeting of this client has ended the request there.
    const bool ended_there = answered && code == Errc::kCancelled;
    const bool again = lost(code) || code == Errc::kBusy || code == Errc::kTimeout || ended_there;
    if (!again || scope.token().stopped()) {
      if (code == Errc::kSessionUnknown && may_have_run && options.id.slot != wire::RequestId::kNoSlot) {
        co_return Error(Errc::kForgottenRequest, name() + " ended the session before this change was answered");
      }
      if (!scope.token().stopped()) co_return reply;
      last = std::move(reply).error();
      break;
    }
    last = std::move(reply).error();
    std::ignore = co_await executor.sleep(backoff, scope.token());
    backoff = std::min(backoff * 2, options_.longest_backoff);
  }
  if (options.stop.stopped()) co_return options.stop.reason();
  // What was seen last says more than "timeout": a dead server reads "server 3 (tcp://...): server cannot be reached".
  if (lost(last.code())) co_return Error(last.code(), name() + " gave no answer before the deadline; is it running?");
  if (excuse) co_return *std::move(excuse);
  co_return Error(Errc::kTimeout, name() + " gave no answer before the deadline");
}

bool Channel::is_greeted() const {
  if (!greeted_ || greeted_client_ != identity_.client || greeted_epoch_ != identity_.epoch) return false;
  return network_.network().connection_of(*peer_) == greeted_connection_;
}

/// The first URL is the best (shared memory, as a rule): one that failed once is not given up for good. Only while
/// nothing is under way, since the server takes whoever comes by another connection for a client that has begun anew.
void Channel::return_to_first_url() {
  if (return_at_ == MonoTime::never() || calls_ > 0 || network_.executor().now() < return_at_) return;
  return_at_ = MonoTime::never();  // the greeting that follows sees where it was found
  greeted_ = false;
  network_.network().prefer_first_url(*peer_);
}

job::Task<Result<void>> Channel::ensure_greeted(job::StopToken stop) {
  for (;;) {
    if (is_greeted()) co_return Result<void>();
    if (!greeting_) break;
    auto waited = co_await greeting_done_.wait(stop);
    if (!waited) co_return waited;
    // may have changed
  }
  greeting_ = true;
  greeting_done_.reset();
  auto result = co_await greet(stop);
  greeting_ = false;
  greeting_done_.set();
  co_return result;
}

/// A server that does not want us is named; what the network says names it already.
Error Channel::refusal(Error error) const {
  if (lost(error.code()) || error.code() == Errc::kTimeout || error.code() == Errc::kCancelled) return error;
  return std::move(error).within(name());
}

job::Task<Result<void>> Channel::greet(job::StopToken stop) {
  greeted_ = false;
  wire::HelloRequest hello;
  hello.fs = identity_.fs;
  hello.features = identity_.features;
  random_.fill(hello.client_nonce);
  Bytes body;
  wire::encode_body(hello, body);
  CallOptions options;
  options.trace = TraceId(random_.next());
  auto raw = co_await attempt(wire::Op::kHello, body, options, stop);
  if (!raw) co_return refusal(std::move(raw).error());
  auto welcome = wire::decode_body<wire::HelloReply>(raw->body);
  if (!welcome) co_return std::move(welcome).error().within(name());
  if (options_.server && welcome->server != options_.server) {
    co_return Error(Errc::kWrongFileSystem,
                    name() + " says that it is server " + std::to_string(welcome->server.value));
  }
  if (welcome->version < wire::kOldestProtocolVersion || welcome->version > wire::kProtocolVersion) {
    co_return Error(Errc::kVersionMismatch, name() + " wants to speak protocol " + std::to_string(welcome->version) +
                                                ", which was not offered");
  }
  features_ = welcome->features & identity_.features;
  if (!identity_.fs) identity_.fs = welcome->fs;
  if (welcome->key_required && !identity_.key)
    co_return Error(Errc::kUnauthenticated, name() + " requires a key; set client_key_file");

  wire::AuthenticateRequest request;
  request.kind = identity_.kind;
  request.client = identity_.client;
  request.incarnation = ++incarnation_sent_;
  request.credential = identity_.credential;
  request.description = identity_.description;
  request.ticket = identity_.ticket;
  ClientId client = identity_.client;
  std::uint32_t epoch = identity_.epoch;
  request.server_nonce = welcome->server_nonce;
  if (identity_.key) request.proof = wire::auth_proof(*identity_.key, request, hello.client_nonce);
  body.clear();
  wire::encode_body(request, body);
  raw = co_await attempt(wire::Op::kAuthenticate, body, options, stop);
  if (!raw) co_return refusal(std::move(raw).error());
  auto accepted = wire::decode_body<wire::AuthenticateReply>(raw->body);
  if (!accepted) co_return std::move(accepted).error().within(name());
  // Whoever has a key is never content with a server that asks for none: it may be anybody.
  const bool proven =
      !identity_.key || equal_secret(wire::server_proof(*identity_.key, welcome->server_nonce, hello.client_nonce),
                                     accepted->server_proof);
  if (!proven)
    co_return Error(Errc::kUnauthenticated, name() + " does not know the key itself: not a server of this file system");
  if (identity_.kind == wire::PeerKind::kClient && accepted->answer_slots > 0) {  // from a meta server: the session
    client = identity_.client = accepted->client;
    epoch = identity_.epoch = accepted->epoch;
    identity_.ticket = accepted->ticket;
    identity_.answer_slots = accepted->answer_slots;
    identity_.lease_ms = accepted->lease_ms;
    identity_.fs_clock_offset_ns = accepted->fs_time.ns - network_.executor().now().since_start.count();
  }
  note_url();
  greeted_connection_ = network_.network().connection_of(*peer_);
  greeted_client_ = client;
  greeted_epoch_ = epoch;
  greeted_ = true;
  co_return Result<void>();
}

job::Task<Result<RawReply>> Channel::attempt(wire::Op op, ByteView body, const CallOptions& options,
                                             job::StopToken stop, bool* answered) {
  job::Executor& executor = network_.executor();
  const bool greeting = op == wire::Op::kHello || op == wire::Op::kAuthenticate;
  job::DeadlineScope scope(executor, executor.now() + options_.attempt_timeout, stop);

  wire::RequestHeader header;
  header.op = op;
  header.fs = identity_.fs;
  header.client = greeting ? ClientId() : identity_.client;
  header.session_epoch = identity_.epoch;
  header.map_version = map_version_;
  header.trace = options.trace;
  header.priority = options.priority;
  header.reply_room = options.reply_room;
  header.id = options.id;
  if (options.deadline != MonoTime::never()) header.deadline_ms = told_deadline(options.deadline - executor.now());
  if (options.capability != nullptr) header.capability = *options.capability;
  Bytes head;
  wire::encode_body(header, head);

  RawReply reply;
  reply.features = features_;
  reply.message = Buffer(options.reply_room);
  const bmi::Tag tag = next_tag();
  const bmi::Segment room = bmi::Segment::of(reply.message.view());
  bmi::Message message;
  message.peer = *peer_;
  message.tag = tag;
  message.segments = bmi::SegmentList(&room, 1);
  job::NetworkOp receive(network_);
  receive.post_recv(message);
  if (options.bulk != nullptr) options.bulk->post(*peer_, tag);

  const std::array<bmi::Segment, 2> parts{bmi::Segment::of(ByteView(head)), bmi::Segment::of(body)};
  message.segments = bmi::SegmentList(parts.data(), body.empty() ? 1 : 2);
  job::NetworkOp send(network_);
  send.post_send_unexpected(message);
  const auto sent = co_await send.wait(scope.token());
  if (!sent) receive.cancel();
  auto received = co_await receive.wait(scope.token());
  if (!sent || !received) {
    if (options.bulk != nullptr) co_await options.bulk->abandon();
    Error error = !sent ? sent.error() : received.error();
    if (error.code() == Errc::kTimeout && !stop.stopped()) {
      // Silent for too long: the next attempt goes over a new connection, by the peer's next address.
      SPATE_LOG("rpc", warn, "no answer, reconnecting peer={} op={} trace={}", log::Quoted{name()}, op_name(op),
                header.trace);
      network_.network().disconnect(*peer_);
    }
    if (lost(error.code()) || error.code() == Errc::kTimeout) greeted_ = false;
    co_return std::move(error).within(name());
  }

  reply.message.shrink(static_cast<std::size_t>(*received));
  const ByteView bytes = std::as_const(reply.message).view();
  wire::Reader reader(bytes);
  reader(reply.header);
  if (!reader.decoder().ok()) {
    if (options.bulk != nullptr) co_await options.bulk->abandon();
    co_return Error(Errc::kProtocol, name() + " sent a reply that cannot be read");
  }
  reply.body = bytes.last(reader.decoder().remaining());
  if (incarnation_ && incarnation_ != reply.header.incarnation) restarted_.store(true, std::memory_order_relaxed);
  incarnation_ = reply.header.incarnation;
  map_version_ = std::max(map_version_, reply.header.map_version);
  SPATE_LOG("rpc", debug, "answered op={} peer={} status={} trace={}", op_name(op), log::Quoted{name()},
            reply.header.status, header.trace);
  if (reply.header.status != Errc::kOk) {
    if (answered != nullptr) *answered = true;
    if (options.bulk != nullptr) co_await options.bulk->abandon();
    const std::string context = reply.header.context.empty() ? std::string() : reply.header.context;
    co_return Error(reply.header.status, context);
  }
  co_return reply;
}

}  // namespace spate::rpc
