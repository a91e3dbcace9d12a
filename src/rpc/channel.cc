// SPDX-License-Identifier: Apache-2.0
#include "rpc/channel.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "job/deadline.h"

namespace spate::rpc {
namespace {

constexpr int kMaxHandshakesPerCall = 3;

}  // namespace

ChannelOptions channel_to(const ServerEntry& server) {
  ChannelOptions options;
  options.urls = server.urls;
  options.server = server.id;
  if (server.id) return options;
  options.group_silence = kGroupSilence;
  options.longest_backoff = kGroupSilence / 5;  // another member may lead at any moment
  options.most_patience = kMostPatience;
  return options;
}

class Channel::Under {
 public:
  Under(Channel& channel, wire::Op op) : channel_(channel), counts_(op != wire::Op::kSessionEvents) {
    ++channel_.calls_;
    if (!counts_) return;
    waiting.since = channel_.network_.executor().now();
    previous_ = channel_.newest_;
    (previous_ != nullptr ? previous_->next_ : channel_.oldest_) = this;
    channel_.newest_ = this;
    ChannelObserver* const watch = channel_.link_.options().watch;
    if (watch != nullptr) watch->call_begins();
  }
  Under(const Under&) = delete;
  Under& operator=(const Under&) = delete;
  ~Under() {
    --channel_.calls_;
    if (!counts_) return;
    (previous_ != nullptr ? previous_->next_ : channel_.oldest_) = next_;
    (next_ != nullptr ? next_->previous_ : channel_.newest_) = previous_;
  }

  Waiting waiting;

 private:
  Channel& channel_;
  const bool counts_;
  Under* previous_ = nullptr;
  Under* next_ = nullptr;
};

std::optional<Channel::Waiting> Channel::waiting() const {
  if (oldest_ == nullptr) return std::nullopt;
  return oldest_->waiting;
}

Channel::Channel(ChannelOptions options, job::NetworkContext& network, Identity& identity, Random& random)
    : network_(network),
      identity_(identity),
      random_(random),
      link_(std::move(options), network, identity, random),
      handshake_ended_(network.executor()),
      incarnation_sent_(link_.options().incarnations_above) {
  if (link_.options().watch != nullptr) link_.options().watch->begins(*this);
}

Channel::~Channel() {
  if (link_.options().watch != nullptr) link_.options().watch->ends(*this);
}

/// Fails if the request is bound to a session epoch that is no longer the current one.
Result<void> Channel::check_session(const CallOptions& options) const {
  if (!options.only_in || *options.only_in == identity_.session()) return {};
  return options.only_in->client == identity_.client ? Errc::kSessionFenced : Errc::kSessionUnknown;
}

job::Task<Result<RawReply>> Channel::call(wire::Op op, ByteView body, CallOptions options) {
  job::Executor& executor = network_.executor();
  job::DeadlineScope scope(executor, options.deadline, options.stop);
  if (!options.trace) options.trace = TraceId(random_.next());
  SPATE_CO_TRY(std::ignore, link_.resolve());
  if (calls_ == 0) link_.return_to_first_url();
  Under under(*this, op);
  Duration backoff = link_.options().first_backoff;
  int handshakes_left = kMaxHandshakesPerCall;
  bool may_have_run = false;  // the request was sent before, and its answer is unknown
  Error last(Errc::kTimeout, name());
  std::optional<Error> excuse;  // the server's own kTimeout, which names what it waited for
  while (!scope.token().stopped()) {
    Result<void> handshake;
    bool answered = false;
    if (options.handshake) {
      handshake = co_await ensure_handshake(HandshakeGoal::kSession, scope.token());
    } else if (handshake_runs_) {
      // Nothing may be sent between an authenticate and its reply.
      handshake = co_await handshake_ended_.wait(scope.token());
    }
    if (handshake) handshake = check_session(options);  // the handshake may have begun another session
    Result<RawReply> reply = Errc::kUnauthenticated;
    if (handshake) {
      const ConnectionPtr used = link_.connection();
      reply = co_await attempt(op, body, options, scope.token(), &answered);
      if (reply) co_return reply;
      // Only the first call turns to the next server. The answers of the others came by a connection out of use.
      const bool led_elsewhere = link_.is_group() && reply.code() == Errc::kNotPrimary;
      if (led_elsewhere && used != nullptr && used == link_.connection()) link_.try_next_server();
      if (answered && reply.code() == Errc::kTimeout && !reply.error().context().empty())
        excuse = reply.error();
      else if (!scope.token().stopped())
        excuse.reset();
      may_have_run = may_have_run || ServerLink::is_lost(reply.code()) || reply.code() == Errc::kTimeout ||
                     reply.code() == Errc::kCancelled || reply.code() == Errc::kNotPrimary;
    } else {
      reply = std::move(handshake).error();
    }
    const Errc code = reply.code();
    if (code == Errc::kUnauthenticated && handshake && --handshakes_left > 0) {
      link_.leave();  // the server does not know this connection
      continue;
    }
    // kCancelled by the server: a newer handshake of this client has ended the request there.
    const bool ended_there = answered && code == Errc::kCancelled;
    const bool led_elsewhere = link_.is_group() && code == Errc::kNotPrimary;
    const bool again =
        ServerLink::is_lost(code) || code == Errc::kBusy || code == Errc::kTimeout || ended_there || led_elsewhere;
    if (!again || scope.token().stopped()) {
      if (code == Errc::kSessionUnknown && may_have_run && options.id.slot != wire::RequestId::kNoSlot) {
        co_return Error::told(Errc::kForgottenRequest, name() + " ended the session before this change was answered");
      }
      if (!scope.token().stopped()) co_return reply;
      last = std::move(reply).error();
      break;
    }
    last = std::move(reply).error();
    under.waiting.why = code;
    std::ignore = co_await executor.sleep(backoff, scope.token());
    backoff = std::min(backoff * 2, link_.options().longest_backoff);
  }
  if (options.stop.stopped()) co_return options.stop.reason();
  if (excuse && !ServerLink::is_lost(last.code())) co_return *std::move(excuse);
  co_return no_answer(last.code());
}

/// The error when the deadline has passed. A lost connection counts as kTimeout, since each attempt made a new one.
Error Channel::no_answer(Errc last) const {
  if (last == Errc::kNotPrimary) {
    return Error::told(Errc::kTimeout, name() + " and the other servers of its group: none of them leads now");
  }
  const Errc code = last == Errc::kUnreachable || last == Errc::kProtocol ? last : Errc::kTimeout;
  const std::string why = unreached();
  if (!why.empty()) return Error::told(code, name() + " cannot be reached: " + why);
  if (code == Errc::kUnreachable) return Error::told(code, name() + " cannot be reached");
  if (code == Errc::kProtocol)
    return Error::told(code, name() + ": the program that answers there is not a Spate server");
  return Error::told(code, name() + " gave no answer before the deadline");
}

job::Task<Result<void>> Channel::ensure_handshake(HandshakeGoal goal, job::StopToken stop) {
  for (;;) {
    if (link_.holds()) co_return Result<void>();
    if (!handshake_runs_) break;
    SPATE_CO_TRY(std::ignore, co_await handshake_ended_.wait(stop));
    // another handshake may have begun in the meantime
  }
  handshake_runs_ = true;
  link_.keep_quiet(true);
  handshake_ended_.reset();
  auto result = co_await handshake(goal, stop);
  handshake_runs_ = false;
  link_.keep_quiet(false);
  handshake_ended_.set();
  co_return result;
}

job::Task<Result<RawReply>> Channel::attempt(wire::Op op, ByteView body, const CallOptions& options,
                                             job::StopToken stop, bool* answered) {
  // A request without a handshake uses any connection; it is sealed if the server has authenticated this side on it.
  const ConnectionPtr connection = options.handshake || link_.holds() ? link_.connection() : nullptr;
  wire::RequestHeader header = link_.header_of(op, options);
  if (connection != nullptr) header.version = connection->version;
  Bytes head;
  wire::encode_body(header, head);
  Sending sending;
  sending.op = op;
  sending.trace = options.trace;
  sending.address = connection != nullptr ? connection->address : link_.address();
  sending.head = head;
  sending.body = body;
  sending.reply_room = options.reply_room;
  sending.bulk = options.bulk;
  if (connection != nullptr) sending.bulk_seals = connection->bulk_seals;
  sending.seals = connection != nullptr && connection->seals ? &*connection->seals : nullptr;
  auto reply = co_await link_.exchange(sending, stop, answered);
  if (reply && connection != nullptr) reply->features = connection->features;
  co_return reply;
}

}  // namespace spate::rpc
