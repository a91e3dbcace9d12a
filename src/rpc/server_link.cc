// SPDX-License-Identifier: Apache-2.0
#include "rpc/server_link.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <tuple>
#include <utility>
#include <vector>

#include "job/deadline.h"
#include "job/run_all.h"
#include "log/fields.h"
#include "log/log.h"
#include "model/server_url.h"

namespace spate::rpc {
namespace {

/// The deadline that the request names, ms, at least 1: a tenth of the time left, but at most a second, is kept back.
/// So a server that waits until then can still report what it waited for.
std::uint32_t told_deadline(Duration left) {
  const auto left_ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
  const auto kept_ms = std::clamp<std::int64_t>(left_ms / 10, 0, 1000);
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(left_ms - kept_ms, 1, 1'000'000'000));
}

/// Waits in vain for members of a group that change nothing: a fail-over takes as long as these, and then one of the
/// others answers.
constexpr std::uint32_t kSparedOfGroup = 4;

ChannelOptions with_usable_urls(ChannelOptions options, const Identity& identity) {
  options.urls = usable_urls(std::move(options.urls), identity);
  return options;
}

}  // namespace

ServerLink::ServerLink(ChannelOptions options, job::NetworkContext& network, const Identity& identity, Random& random)
    : options_(with_usable_urls(std::move(options), identity)),
      network_(network),
      identity_(identity),
      random_(random),
      patience_(options_.most_patience, is_group() ? kSparedOfGroup : 0),
      next_tag_(random.next() << kTagBitsPerRequest) {}

ServerLink::~ServerLink() {
  if (peer_) network_.network().release(*peer_);
}

std::string ServerLink::name() const {
  if (is_group()) {
    std::string all;
    for (const std::string& url : options_.urls) all += (all.empty() ? "" : ", ") + url;
    return "meta servers (" + all + ")";
  }
  const std::string url = options_.urls.empty() ? "no address" : shown_url(options_.urls);
  return options_.server ? "server " + std::to_string(options_.server.value) + " (" + url + ")" : "server at " + url;
}

bmi::PeerInfo ServerLink::peer_info() const { return peer_ ? network_.network().peer_info(*peer_) : bmi::PeerInfo{}; }

std::string ServerLink::unreached() const {
  const bmi::PeerInfo info = peer_info();
  if (info.connected || info.failed.empty()) return {};
  // name() already shows the address. A failure of shared memory adds nothing to a failure of the network.
  std::vector<bmi::FailedUrl> failed = info.failed;
  std::erase_if(
      failed, [&](const bmi::FailedUrl& one) { return is_shm_url(one.url) && !is_shm_url(shown_url(options_.urls)); });
  if (failed.empty()) failed = info.failed;
  if (failed.size() == 1 && !is_group()) return failed.front().reason;
  std::string all;
  for (const bmi::FailedUrl& one : failed) all += (all.empty() ? "" : "; ") + one.url + ": " + one.reason;
  return all;
}

Result<void> ServerLink::resolve() {
  if (peer_) return {};
  auto address = network_.network().claim(options_.urls);
  if (!address) return std::move(address).error().within(name());
  peer_ = *address;
  return {};
}

// --- the connection in use ---

bool ServerLink::holds() const {
  if (connection_ == nullptr || connection_->client != identity_.client || connection_->epoch != identity_.epoch)
    return false;
  return bound() == connection_->address;
}

void ServerLink::note_url() {
  if (is_group()) return;  // a group has no preferred server
  const std::string url = peer_info().url;
  // A module may report the address as it was resolved. The server was found elsewhere only if the URL is another one
  // of the list.
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

void ServerLink::use(const ConnectionPtr& connection) {
  note_url();
  connection_ = connection;
}

void ServerLink::close_and_turn_to_next() {
  network_.network().disconnect(*peer_);
  network_.network().prefer_next_url(*peer_);
}

void ServerLink::try_next_server() {
  leave();
  close_and_turn_to_next();
}

/// The first URL is the best one (usually shared memory), so a channel that had to use a later URL returns to it.
void ServerLink::return_to_first_url() {
  if (return_at_ == MonoTime::never() || network_.executor().now() < return_at_) return;
  return_at_ = MonoTime::never();  // the next handshake notes the URL at which it found the server
  connection_.reset();
  network_.network().prefer_first_url(*peer_);
}

// --- one request and its reply ---

bmi::Tag ServerLink::next_tag() {
  next_tag_ += 1ULL << kTagBitsPerRequest;
  return bmi::Tag(next_tag_);
}

wire::RequestHeader ServerLink::header_of(wire::Op op, const CallOptions& options) const {
  const bool handshake = op == wire::Op::kHello || op == wire::Op::kAuthenticate;
  wire::RequestHeader header;
  header.op = op;
  header.fs = identity_.fs;
  header.client = handshake ? ClientId() : identity_.client;
  header.session_epoch = identity_.epoch;
  header.map_version = map_version_;
  header.trace = options.trace;
  header.priority = options.priority;
  header.reply_room = options.reply_room;
  header.id = options.id;
  if (options.deadline != MonoTime::never())
    header.deadline_ms = told_deadline(options.deadline - network_.executor().now());
  if (options.capability != nullptr) header.capability = *options.capability;
  return header;
}

job::Task<Result<RawReply>> ServerLink::exchange(const Sending& sending, job::StopToken stop, bool* answered) {
  const MonoTime begun = network_.executor().now();
  const std::uint32_t patience = patience_.factor();
  job::DeadlineScope scope(network_.executor(), begun + time_for(sending), stop);
  Buffer room(sending.reply_room + (sending.seals != nullptr ? Seals::kSize : 0));
  const bmi::Tag tag = next_tag();
  const bmi::Segment into = bmi::Segment::of(room.view());
  bmi::Message message;
  message.peer = sending.address;
  message.tag = tag;
  message.segments = bmi::SegmentList(&into, 1);
  job::NetworkOp receive(network_);
  receive.post_recv(message);
  if (sending.bulk != nullptr) sending.bulk->post(sending.address, tag, sending.bulk_seals);

  std::array<bmi::Segment, 3> parts{bmi::Segment::of(sending.head), bmi::Segment{}, bmi::Segment{}};
  std::size_t count = 1;
  if (!sending.body.empty()) parts[count++] = bmi::Segment::of(sending.body);
  Umac64::Code code{};
  if (sending.seals != nullptr && sending.seal_request) {
    code = sending.seals->seal(tag, {sending.head, sending.body});
    parts[count++] = bmi::Segment::of(ByteView(code));
  }
  message.segments = bmi::SegmentList(parts.data(), count);
  job::NetworkOp send(network_);
  send.post_send_unexpected(message);
  const auto sent = co_await send.wait(scope.token());
  if (!sent) receive.cancel();
  Result<std::uint64_t> received = Errc::kUnknown;
  if (is_watched(sending)) {
    received = co_await receive_watched(receive, sending.address, scope.token());
  } else {
    received = co_await receive.wait(scope.token());
  }
  if (!sent || !received) {
    if (sending.bulk != nullptr) co_await sending.bulk->abandon();
    Error error = !sent ? sent.error() : received.error();
    if (error.code() == Errc::kTimeout && !stop.stopped()) note_silence(sending, patience);
    if (is_lost(error.code()) || error.code() == Errc::kTimeout) forget(sending.address);
    co_return std::move(error).within(name());
  }
  room.shrink(static_cast<std::size_t>(*received));
  auto reply = read_reply(sending, tag, std::move(room));
  note_answer(sending, reply.code(), network_.executor().now() - begun);
  if (!reply && sending.bulk != nullptr) co_await sending.bulk->abandon();
  if (!reply && answered != nullptr) *answered = reply.code() != Errc::kProtocol && !is_lost(reply.code());
  co_return reply;
}

Duration ServerLink::time_for(const Sending& sending) const {
  if (is_watched(sending)) return options_.attempt_timeout;  // its pings have patience
  return (sending.timeout != Duration(0) ? sending.timeout : options_.attempt_timeout) * patience_.factor();
}

/// The server was silent for too long: the next attempt goes over a new connection.
void ServerLink::note_silence(const Sending& sending, std::uint32_t patience) {
  SPATE_LOG("rpc", warn, "no answer, reconnecting peer={} op={} trace={}", log::Quoted{name()}, op_name(sending.op),
            sending.trace);
  if (!is_watched(sending)) patience_.expired(patience);
  const bool current = sending.address == *peer_ || bound() == sending.address;
  network_.network().disconnect(sending.address);
  if (is_group() && current) try_next_server();
}

/// A member of a group that does not lead tells nothing about the way to the one that leads.
void ServerLink::note_answer(const Sending& sending, Errc status, Duration took) {
  const bool handshake = sending.op == wire::Op::kHello || sending.op == wire::Op::kAuthenticate;
  if (is_lost(status) || (is_group() && (handshake || !sending.proven || status == Errc::kNotPrimary))) return;
  patience_.answered(took, is_group() ? options_.group_silence / 2 : options_.attempt_timeout);
}

job::Task<Result<bmi::Address>> ServerLink::connect(TraceId trace, job::StopToken stop) {
  CallOptions options;
  options.trace = trace;
  wire::RequestHeader header = header_of(wire::Op::kPing, options);
  header.client = ClientId();  // a stranger may answer
  header.session_epoch = 0;
  Bytes message;
  wire::encode_body(header, message);
  wire::encode_body(wire::PingRequest(), message);
  Sending sending;
  sending.op = wire::Op::kPing;
  sending.trace = trace;
  sending.address = address();
  sending.head = message;
  sending.timeout = options_.group_silence / 2;
  sending.proven = false;
  SPATE_CO_TRY(std::ignore, co_await exchange(sending, stop));
  const bmi::Address found = bound();
  if (!found) co_return Error(Errc::kConnectionLost, name());
  co_return found;
}

/// Receives the reply, while watch_server() looks whether the server lives.
job::Task<Result<std::uint64_t>> ServerLink::receive_watched(job::NetworkOp& receive, bmi::Address from,
                                                             job::StopToken stop) {
  Result<std::uint64_t> received = Errc::kUnknown;
  job::StopSource ended;
  std::vector<job::Task<Result<void>>> tasks;
  tasks.push_back(receive_into(receive, received, ended, stop));
  tasks.push_back(watch_server(from, ended));
  std::ignore = co_await job::run_all(network_.executor(), std::move(tasks));
  co_return received;
}

job::Task<Result<void>> ServerLink::receive_into(job::NetworkOp& receive, Result<std::uint64_t>& received,
                                                 job::StopSource& ended, job::StopToken stop) {
  received = co_await receive.wait(stop);
  ended.request_stop();
  co_return Result<void>();
}

/// One call at a time sends pings, for all of the channel's calls. A server that does not answer loses its connection.
job::Task<Result<void>> ServerLink::watch_server(bmi::Address address, job::StopToken ended) {
  for (;;) {
    const auto slept = co_await network_.executor().sleep(options_.group_silence, ended);
    if (!slept) co_return Result<void>();
    // Nothing may be sent between an authenticate and its reply.
    if (watching_ || quiet_ || bound() != address) continue;
    watching_ = true;
    CallOptions options;
    options.trace = TraceId(random_.next());
    options.priority = wire::Priority::kControl;
    Bytes body;
    wire::encode_body(wire::PingRequest(), body);
    const wire::RequestHeader header = header_of(wire::Op::kPing, options);
    Bytes head;
    wire::encode_body(header, head);
    const ConnectionPtr connection = connection_;
    Sending sending;
    sending.op = wire::Op::kPing;
    sending.trace = options.trace;
    sending.address = address;
    sending.head = head;
    sending.body = body;
    sending.timeout = options_.group_silence / 2;
    sending.seals = connection != nullptr && connection->seals ? &*connection->seals : nullptr;
    std::ignore = co_await exchange(sending, ended);
    watching_ = false;
  }
}

/// Forgets the connection, which is lost.
void ServerLink::forget(bmi::Address address) {
  if (connection_ != nullptr && (connection_->address == address || address == *peer_)) connection_.reset();
}

Error ServerLink::broken_seal(const Sending& sending) {
  SPATE_LOG("rpc", error, "seal broken: message altered on the way, or not from {}; connection closed op={} trace={}",
            name(), op_name(sending.op), sending.trace);
  network_.network().disconnect(sending.address);
  forget(sending.address);
  return Error::told(Errc::kConnectionLost, name() + " sent a reply without a good seal");
}

/// Decodes a received reply. An error that the server reports becomes the result.
Result<RawReply> ServerLink::read_reply(const Sending& sending, bmi::Tag tag, Buffer message) {
  if (sending.seals != nullptr) {
    if (!sending.seals->genuine(tag, std::as_const(message).view())) return broken_seal(sending);
    message.shrink(message.size() - Seals::kSize);
  }
  RawReply reply;
  reply.message = std::move(message);
  const ByteView bytes = std::as_const(reply.message).view();
  wire::Reader reader(bytes);
  reader(reply.header);
  if (!reader.decoder().ok()) return Error::told(Errc::kProtocol, name() + " sent a reply that cannot be read");
  reply.body = bytes.last(reader.decoder().remaining());
  if (sending.op != wire::Op::kHello && sending.proven) {  // any process may answer before it has proved a key
    const bool restarted = incarnation_ && incarnation_ != reply.header.incarnation;
    incarnation_ = reply.header.incarnation;
    if (restarted) restarted_.store(true, std::memory_order_relaxed);
    if (restarted && on_restart_) on_restart_();
    map_version_ = std::max(map_version_, reply.header.map_version);
  }
  SPATE_LOG("rpc", debug, "answered op={} peer={} status={} trace={}", op_name(sending.op), log::Quoted{name()},
            reply.header.status, sending.trace);
  if (reply.header.status != Errc::kOk) return wire::error_of(reply.header.status, reply.header.context);
  return reply;
}

}  // namespace spate::rpc
