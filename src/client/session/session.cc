// SPDX-License-Identifier: Apache-2.0
#include "client/session/session.h"

#include <algorithm>
#include <utility>

#include "client/session/handover_state.h"
#include "log/fields.h"
#include "log/log.h"
#include "model/defect.h"
#include "wire/cluster_messages.h"

namespace spate::client {
namespace {

/// The kernel repeats the requests that an earlier process has not answered before it sends others. It does so within
/// this time.
constexpr Duration kAskAgainPause = std::chrono::seconds(5);

constexpr std::size_t kGroupsAtOnce = wire::kMaxGroupsTold;
constexpr std::uint32_t kMapRoom = 1U << 20U;  // enough for 4,096 servers with addresses of 200 bytes

/// The digest that identifies a repeated request. Only the handle of a close is compared, because its other fields
/// depend on the process that sends it.
std::uint64_t digest_of(wire::Op op, ByteView body) {
  const bool closes = op == wire::Op::kClose || op == wire::Op::kCloseWriters;
  if (!closes) return hash64(body, static_cast<std::uint64_t>(op));
  return hash64(body.first(std::min(body.size(), sizeof(Handle))), static_cast<std::uint64_t>(wire::Op::kClose));
}

rpc::Identity identity_of(const Options& options) {
  rpc::Identity identity;
  identity.kind = wire::PeerKind::kClient;
  identity.fs = options.map.fs;
  identity.key = options.client_key;
  identity.newer_key = options.newer_client_key;
  identity.fresh_key = options.fresh_key;
  identity.policy = options.handshake;
  identity.credential = options.credential;
  identity.description = options.description;
  identity.features = wire::kOurFeatures;
  if (!options.keep_attributes) identity.features &= ~wire::kLeaseFeatures;
  if (!options.keep_attributes || options.gather == nullptr) identity.features &= ~wire::kFeatureGathers;
  if (!options.keep_attributes || options.queue == nullptr) {
    identity.features &= ~(wire::kFeatureDelegates | wire::kFeatureRemoves);
  }
  return identity;
}

}  // namespace

Session::Session(Options options, job::NetworkContext& network, Random& random)
    : options_(std::move(options)),
      network_(network),
      traces_(random.next()),
      identity_(identity_of(options_)),
      servers_(options_, network, identity_, random),
      slots_(network.executor(), options_.handover),
      map_turn_(network.executor(), 1),
      gate_(network.executor()),
      batcher_(network.executor(), gate_, job::StopToken(stopping_),
               [this](wire::Op op, ByteView body, Limits limits, std::uint32_t reply_room) {
                 return send_one_change(op, body, std::move(limits), reply_room);
               }) {
  inherit();
}

Limits Session::limits(job::StopToken stop) {
  Limits limits;
  limits.deadline = network_.executor().now() + options_.deadline;
  limits.stop = stop;
  limits.trace = TraceId(traces_.next());
  limits.request_id = std::exchange(next_request_id_, 0);
  return limits;
}

WallTime Session::fs_time() const {
  if (planted(Defect::kWallClock)) return network_.executor().clock().wall();
  return WallTime{network_.executor().now().since_start.count() + identity_.fs_clock_offset_ns};
}

/// The handover state keeps the offset to the wall clock, because the next process may have another monotonic clock.
std::int64_t Session::wall_of_monotonic_ns() const {
  return network_.executor().clock().wall().ns - network_.executor().now().since_start.count();
}

job::Task<void> Session::stop(Limits limits) {
  if (identity_.client) {
    const wire::EndSessionRequest request;
    auto ended = co_await ask(request, limits);
    if (!ended) SPATE_LOG("client", debug, "session not ended error={}", ended.error());
  }
  co_await servers_.stop();
  co_await gate_.close();
}

job::Task<Result<void>> Session::ensure_open(Limits limits) {
  // A ticket alone may come from a handshake whose session was never confirmed, because the server went away in
  // between.
  if (identity_.ticket && slots_.ready()) co_return Result<void>();
  auto alive = co_await handshake_with_meta(limits);
  co_return alive;
}

job::Task<Result<void>> Session::renew(Limits limits, rpc::SessionEpoch ended) {
  if (identity_.session() != ended) co_return Result<void>();  // another request has learnt of the end before
  auto result = co_await handshake_with_meta(limits);
  co_return result;
}

/// Channels to io servers notice a new epoch themselves. In the old epoch they make no new handshake, which would end
/// their requests in flight.
job::Task<Result<void>> Session::handshake_with_meta(Limits limits) {
  observer_->handshake_begins();
  meta().repeat_handshake();
  limits.only_in.reset();
  rpc::CallOptions options = limits.call_options();
  const wire::KeepAliveRequest request;
  auto alive = co_await meta().call<wire::KeepAliveReply>(request, options);
  if (!alive && session_ended(alive.code())) {  // the meta server has forgotten the session: begins a new one
    identity_.client = ClientId();
    identity_.ticket.reset();
    meta().repeat_handshake();
    alive = co_await meta().call<wire::KeepAliveReply>(request, options);
  }
  if (!alive) co_return std::move(alive).error();
  // Without a slot every change would wait for ever.
  if (identity_.answer_slots == 0) co_return Error(Errc::kProtocol, meta().name() + " opened no session");
  identity_.ticket = alive->ticket;
  slots_.reset(identity_.answer_slots);
  keep_for_next_process();
  observer_->session_changed();
  if (!keeping_alive_) {
    keeping_alive_ = true;
    job::spawn(gate_, keep_alive());
    if (options_.handover != nullptr && options_.handover->inherited()) job::spawn(gate_, end_inheritance());
  }
  co_return Result<void>();
}

void Session::inherit() {
  if (options_.handover == nullptr) return;
  const auto session = options_.handover->session();
  if (!session) return;
  identity_.client = session->client;
  identity_.epoch = session->epoch;
  identity_.ticket = session->ticket;
  identity_.answer_slots = session->answer_slots;
  identity_.lease_ms = session->lease_ms;
  identity_.fs_clock_offset_ns = session->fs_clock_offset_ns + wall_of_monotonic_ns();
  inherited_ = true;
}

void Session::keep_for_next_process() {
  if (options_.handover == nullptr || !identity_.ticket) return;
  HandoverState::SessionRecord session;
  session.client = identity_.client;
  session.epoch = identity_.epoch;
  session.lease_ms = identity_.lease_ms;
  session.answer_slots = identity_.answer_slots;
  session.ticket = *identity_.ticket;
  session.fs_clock_offset_ns = identity_.fs_clock_offset_ns - wall_of_monotonic_ns();
  options_.handover->keep_session(session);
}

void Session::resume() {
  if (options_.handover != nullptr && options_.handover->inherited()) job::spawn(gate_, resume_now());
}

job::Task<void> Session::resume_now() {
  std::ignore = co_await ensure_open(limits(stopping_));  // if it fails, the first request opens the session
}

/// Finishes what an earlier process of this session left undone.
job::Task<void> Session::end_inheritance() {
  co_await observer_->end_inheritance();
  auto slept = co_await executor().sleep(kAskAgainPause, stopping_);
  if (slept) options_.handover->forget_unasked();
}

job::Task<void> Session::keep_alive() {
  for (;;) {
    const Duration period = std::chrono::milliseconds(std::max<std::uint32_t>(identity_.lease_ms / 3, 100));
    auto slept = co_await executor().sleep(period, stopping_);
    if (!slept) co_return;
    rpc::CallOptions options;
    options.deadline = executor().now() + options_.deadline;
    options.stop = stopping_;
    const wire::KeepAliveRequest request;
    const rpc::SessionEpoch session = identity_.session();
    auto alive = co_await meta().call<wire::KeepAliveReply>(request, options);
    if (!alive && session_ended(alive.code())) {
      // A client that sends no requests must learn, too, that its locks are lost, and must have its files and waits in
      // the new epoch.
      std::ignore = co_await renew(limits(stopping_), session);
      continue;
    }
    if (!alive) continue;
    identity_.ticket = alive->ticket;
    identity_.fs_clock_offset_ns = alive->fs_time.ns - executor().now().since_start.count();
    keep_for_next_process();
    observer_->heard();
    begin_to_learn_map();
  }
}

/// Keep-alives do not wait for it: a busy server lets the request for the map wait, but answers keep-alives at once.
void Session::begin_to_learn_map() {
  if (learning_map_ || knows_newest_map()) return;
  learning_map_ = true;
  if (!job::spawn(gate_, learn_map_aside())) learning_map_ = false;
}

job::Task<void> Session::learn_map_aside() {
  std::ignore = co_await learn_newer_map(limits(stopping_));  // if it fails, the next keep-alive tries again
  learning_map_ = false;
}

job::Task<Result<ChangeReply>> Session::send_numbered(wire::Op op, ByteView body, Limits limits,
                                                      std::uint32_t reply_room) {
  SPATE_CO_TRY(std::ignore, co_await ensure_open(limits));
  rpc::CallOptions options = limits.call_options();
  options.reply_room = reply_room;
  auto reply = co_await meta().call(op, body, options);
  co_return read_change_reply(std::move(reply));
}

job::Task<Result<rpc::RawReply>> Session::send_query(wire::Op op, ByteView body, Limits limits,
                                                     std::uint32_t reply_room) {
  if (observer_->must_follow(op, body)) {
    SPATE_CO_TRY(std::ignore, co_await observer_->send_queued(limits));
  }
  SPATE_CO_TRY(std::ignore, co_await ensure_open(limits));
  rpc::CallOptions options = limits.call_options();
  options.reply_room = reply_room;
  const rpc::SessionEpoch session = identity_.session();
  auto reply = co_await meta().call(op, body, options);
  if (reply || !session_ended(reply.code()) || limits.only_in) co_return reply;
  SPATE_CO_TRY(std::ignore, co_await renew(limits, session));
  reply = co_await meta().call(op, body, options);
  co_return reply;
}

/// A process that hands its state to a successor sends each change alone, because the successor recognises a repeated
/// change by its id.
job::Task<Result<ChangeReply>> Session::send_change(wire::Op op, ByteView body, Limits limits) {
  if (observer_->must_follow(op, body)) {
    SPATE_CO_TRY(std::ignore, co_await observer_->send_queued(limits));
  }
  const bool together = options_.handover == nullptr && (meta().features() & wire::kFeatureBatches) != 0 &&
                        ChangeBatcher::takes(op, body, limits);
  if (together) {
    auto reply = co_await batcher_.send(op, body, limits);
    co_return reply;
  }
  auto reply = co_await send_one_change(op, body, limits, rpc::CallOptions().reply_room);
  co_return read_change_reply(std::move(reply));
}

job::Task<Result<rpc::RawReply>> Session::send_one_change(wire::Op op, ByteView body, Limits limits,
                                                          std::uint32_t reply_room) {
  SPATE_CO_TRY(std::ignore, co_await ensure_open(limits));
  RequestSlots::Params params;
  params.request_id = options_.handover == nullptr ? 0 : limits.request_id;
  if (params.request_id != 0) params.digest = digest_of(op, body);
  SPATE_CO_TRY(auto slot, co_await slots_.acquire(params, limits.stop));
  rpc::CallOptions options = limits.call_options();
  options.id = slot.id();
  options.reply_room = reply_room;
  for (int tries = 1;; ++tries) {
    const rpc::SessionEpoch session = identity_.session();
    if (limits.data_of) {
      if (observer_->lost_lock(*limits.data_of)) co_return Errc::kLostLock;
      options.only_in = session;
    }
    auto reply = co_await meta().call(op, body, options);
    if (reply || !session_ended(reply.code()) || limits.only_in || tries == kMostSessions) co_return reply;
    // The session expired before this request came, so the request was refused and not run. (If it had run before, an
    // expired session would still have its answer, and for a forgotten one the server returns kForgottenRequest.)
    SPATE_CO_TRY(std::ignore, co_await renew(limits, session));
  }
}

/// The meta server has placed the file on these targets. So it knows them.
job::Task<Result<void>> Session::learn_targets(const Layout& layout, Limits limits) {
  if (servers_.knows_targets(layout)) co_return Result<void>();
  SPATE_CO_TRY(const auto turn, co_await map_turn_.acquire(1, limits.stop));
  if (servers_.knows_targets(layout)) co_return Result<void>();  // another operation has asked in the meantime
  std::vector<TargetId> groups = servers_.unknown_groups(layout);
  if (!groups.empty()) {
    SPATE_CO_TRY(std::ignore, co_await fetch_groups(std::move(groups), limits));
    if (servers_.knows_targets(layout)) co_return Result<void>();
  }
  auto fetched = co_await fetch_map(std::move(limits));
  co_return fetched;  // if a target is still missing, Servers::io_channel() reports it
}

job::Task<Result<void>> Session::learn_groups(std::vector<TargetId> groups, Limits limits) {
  const std::vector<TargetId> asked = groups;
  SPATE_CO_TRY(std::ignore, co_await fetch_groups(std::move(groups), limits));
  for (const TargetId group : asked) {
    if (servers_.io_channel(group)) continue;
    auto fetched = co_await learn_map(limits);  // the primary is a server that joined lately
    co_return fetched;
  }
  co_return Result<void>();
}

job::Task<Result<void>> Session::fetch_groups(std::vector<TargetId> groups, Limits limits) {
  std::span<const TargetId> left(groups);
  while (!left.empty()) {
    wire::DataGroupsRequest request;
    request.groups.assign(left.begin(),
                          left.begin() + static_cast<std::ptrdiff_t>(std::min(left.size(), kGroupsAtOnce)));
    left = left.subspan(request.groups.size());
    SPATE_CO_TRY(const auto reply, co_await ask(request, limits, kMapRoom));
    if (reply.groups.size() != request.groups.size() || reply.more)
      co_return Error::told(Errc::kNotFound, meta().name() + " does not know a group of targets that a file names");
    servers_.groups().learn(reply.groups);
  }
  co_return Result<void>();
}

job::Task<Result<void>> Session::learn_map(Limits limits) {
  SPATE_CO_TRY(const auto turn, co_await map_turn_.acquire(1, limits.stop));
  auto fetched = co_await fetch_map(std::move(limits));
  co_return fetched;
}

job::Task<Result<void>> Session::learn_newer_map(Limits limits) {
  if (knows_newest_map()) co_return Result<void>();
  SPATE_CO_TRY(const auto turn, co_await map_turn_.acquire(1, limits.stop));
  if (knows_newest_map()) co_return Result<void>();  // another call may have learnt it meanwhile
  auto fetched = co_await fetch_map(std::move(limits));
  co_return fetched;
}

job::Task<Result<void>> Session::fetch_map(Limits limits) {
  const wire::ClusterMapRequest request;
  SPATE_CO_TRY(const wire::ClusterMapReply reply, co_await ask(request, limits, kMapRoom));
  const auto added = servers_.add(reply.map);
  if (!added) co_return Error(added.error()).within(meta().name());
  co_return Result<void>();
}

}  // namespace spate::client
