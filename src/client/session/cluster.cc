// SPDX-License-Identifier: Apache-2.0
#include "client/session/cluster.h"

#include <algorithm>
#include <utility>

#include "client/attributes/copies.h"
#include "client/session/handover_state.h"
#include "job/event.h"
#include "log/fields.h"
#include "log/log.h"
#include "model/defect.h"

namespace spate::client {
namespace {

/// Within which the kernel has asked again for what an earlier process left unanswered: it asks for that first.
constexpr Duration kAskAgainPatience = std::chrono::seconds(5);

/// By which a request is known again. What a close tells besides the handle depends on the process that sends it.
std::uint64_t digest_of(wire::Op op, ByteView body) {
  const ByteView counts = op == wire::Op::kClose ? body.first(std::min(body.size(), sizeof(std::uint64_t))) : body;
  return hash64(counts, static_cast<std::uint64_t>(op));
}

/// An answer of the name space: nothing was changed. (A close may have been made all the same.)
bool without_effect(wire::Op op, Errc code) {
  const auto number = static_cast<unsigned>(code);
  const bool of_names =
      (number >= static_cast<unsigned>(Errc::kNotFound) && number < static_cast<unsigned>(Errc::kNoSpace)) ||
      code == Errc::kInvalidArgument || code == Errc::kNotSupported;
  return of_names && op != wire::Op::kClose;
}

/// The request may be under way still, or was never answered.
bool may_be_under_way(Errc code) {
  return code == Errc::kTimeout || code == Errc::kUnreachable || code == Errc::kConnectionLost ||
         code == Errc::kCancelled || code == Errc::kProtocol || code == Errc::kForgottenRequest;
}

}  // namespace

Cluster::Cluster(Options options, job::NetworkContext& network, Random& random)
    : options_(std::move(options)),
      network_(network),
      random_(random),
      traces_(random.next()),
      slots_(network.executor(), options_.handover),
      map_turn_(network.executor(), 1),
      offload_(network.executor()),
      kernel_files_(offload_, network.executor().clock()),
      attributes_({options_.keep_attributes, options_.most_kept, options_.copies, options_.listings},
                  network.executor().clock()),
      locks_(*this),
      appends_(network.executor(), locks_, options_.handover),
      unsynced_(network.executor()),
      gate_(network.executor()) {
  identity_.kind = wire::PeerKind::kClient;
  identity_.fs = options_.map.fs;
  identity_.key = options_.client_key;
  identity_.newer_key = options_.newer_client_key;
  identity_.policy = options_.greeting;
  identity_.credential = options_.credential;
  identity_.description = options_.description;
  identity_.features = wire::kOurFeatures;
  if (!options_.keep_attributes) identity_.features &= ~wire::kLeaseFeatures;
  inherit_session();
  if (options_.on_wait) watch_.emplace(network_.executor(), options_.on_wait);
  for (const ServerEntry& server : options_.map.servers) {
    channels_.emplace(server.id, make_channel(server));
    if (server.roles.meta && meta_ == nullptr) meta_ = channels_[server.id].get();
  }
  SPATE_CHECK(meta_ != nullptr);  // config refuses a file system without a meta server
}

Cluster::~Cluster() = default;

std::unique_ptr<rpc::Channel> Cluster::make_channel(const ServerEntry& server) {
  rpc::ChannelOptions options;
  options.urls = server.urls;
  options.server = server.id;
  options.attempt_timeout = options_.attempt_timeout;
  if (options_.handover != nullptr) options.incarnations_above = options_.handover->first_number();
  options.watch = watch();
  return std::make_unique<rpc::Channel>(std::move(options), network_, identity_, random_);
}

std::vector<rpc::ServerWait> Cluster::waits(Duration least) const {
  std::vector<const rpc::Channel*> channels;
  for (const auto& [server, channel] : channels_) channels.push_back(channel.get());
  return rpc::waits_for(channels, network_.executor().now(), least);
}

Limits Cluster::limits(job::StopToken stop) {
  Limits limits;
  limits.deadline = network_.executor().now() + options_.deadline;
  limits.stop = stop;
  limits.trace = TraceId(traces_.next());
  limits.request_id = std::exchange(next_request_id_, 0);
  return limits;
}

WallTime Cluster::fs_time() const {
  if (planted(Defect::kWallClock)) return network_.executor().clock().wall();
  return WallTime{network_.executor().now().since_start.count() + identity_.fs_clock_offset_ns};
}

/// The handover state keeps the offset to the wall clock: the next process may have another monotonic one.
std::int64_t Cluster::wall_of_monotonic_ns() const {
  return network_.executor().clock().wall().ns - network_.executor().now().since_start.count();
}

job::Task<void> Cluster::stop(Limits limits) {
  stopping_.request_stop();
  attributes_.clear();
  co_await locks_.stop();
  co_await appends_.stop();
  if (identity_.client) {
    const wire::EndSessionRequest request;
    auto ended = co_await ask<wire::EndSessionReply>(request, limits);
    if (!ended) SPATE_LOG("client", debug, "session not ended error={}", ended.error());
  }
  if (watch_) co_await watch_->stop();
  co_await gate_.close();
}

Result<rpc::Channel*> Cluster::io_channel(TargetId target) {
  const ServerEntry* server = options_.map.server_of_target(target);
  if (server == nullptr) {
    return Error(Errc::kStaleMap, "target " + std::to_string(target.value) +
                                      " is neither in this client's spate.toml nor known to the meta server");
  }
  return channels_[server->id].get();
}

job::Task<Result<void>> Cluster::ensure_session(Limits limits) {
  // A ticket alone may be of a greeting whose session was never confirmed: the server went away in between.
  if (identity_.ticket && slots_.ready()) co_return Result<void>();
  auto alive = co_await greet_meta(limits);
  co_return alive;
}

job::Task<Result<void>> Cluster::renew_session(Limits limits, rpc::SessionEpoch ended) {
  if (identity_.session() != ended) co_return Result<void>();  // another request was told before
  auto greeted = co_await greet_meta(limits);
  co_return greeted;
}

/// Channels to io servers notice a new epoch by themselves. In the old one they are not greeted anew: that would end
/// whatever they have under way.
job::Task<Result<void>> Cluster::greet_meta(Limits limits) {
  attributes_.clear();
  meta_->greet_again();
  limits.only_in.reset();
  rpc::CallOptions options = limits.call_options();
  const wire::KeepAliveRequest request;
  auto alive = co_await meta_->call<wire::KeepAliveReply>(request, options);
  if (!alive && session_ended(alive.code())) {  // the meta server has forgotten it: begin a new one
    identity_.client = ClientId();
    identity_.ticket.reset();
    meta_->greet_again();
    alive = co_await meta_->call<wire::KeepAliveReply>(request, options);
  }
  if (!alive) co_return std::move(alive).error();
  // Without a slot every change would wait for one for ever.
  if (identity_.answer_slots == 0) co_return Error(Errc::kProtocol, meta_->name() + " opened no session");
  identity_.ticket = alive->ticket;
  slots_.reset(identity_.answer_slots);
  keep_session();
  locks_.session_changed();
  if (!keeping_alive_) {
    keeping_alive_ = true;
    job::spawn(gate_, keep_alive());
    if (options_.handover != nullptr && options_.handover->inherited()) job::spawn(gate_, end_inheritance());
  }
  co_return Result<void>();
}

void Cluster::inherit_session() {
  if (options_.handover == nullptr) return;
  const auto session = options_.handover->session();
  if (!session) return;
  identity_.client = session->client;
  identity_.epoch = session->epoch;
  identity_.ticket = session->ticket;
  identity_.answer_slots = session->answer_slots;
  identity_.lease_ms = session->lease_ms;
  identity_.fs_clock_offset_ns = session->fs_clock_offset_ns + wall_of_monotonic_ns();
  locks_.inherit();
  unsynced_.forget_some();
}

void Cluster::keep_session() {
  if (options_.handover == nullptr || !identity_.ticket) return;
  HandoverState::Session session;
  session.client = identity_.client;
  session.epoch = identity_.epoch;
  session.lease_ms = identity_.lease_ms;
  session.answer_slots = identity_.answer_slots;
  session.ticket = *identity_.ticket;
  session.fs_clock_offset_ns = identity_.fs_clock_offset_ns - wall_of_monotonic_ns();
  options_.handover->keep_session(session);
}

void Cluster::resume() {
  if (options_.handover != nullptr && options_.handover->inherited()) job::spawn(gate_, resume_session());
}

job::Task<void> Cluster::resume_session() {
  std::ignore = co_await ensure_session(limits(stopping_));  // else with the first request
}

/// What an earlier process of this session left undone.
job::Task<void> Cluster::end_inheritance() {
  co_await locks_.end_inherited_waits();
  auto slept = co_await executor().sleep(kAskAgainPatience, stopping_);
  if (slept) options_.handover->forget_unasked();
}

job::Task<void> Cluster::keep_alive() {
  for (;;) {
    const Duration period = std::chrono::milliseconds(std::max<std::uint32_t>(identity_.lease_ms / 3, 100));
    auto slept = co_await executor().sleep(period, stopping_);
    if (!slept) co_return;
    rpc::CallOptions options;
    options.deadline = executor().now() + options_.deadline;
    options.stop = stopping_;
    const wire::KeepAliveRequest request;
    const rpc::SessionEpoch session = identity_.session();
    auto alive = co_await meta_->call<wire::KeepAliveReply>(request, options);
    if (!alive && session_ended(alive.code())) {
      // Also who does nothing is to know that its locks are lost, and has its files and waits in the new epoch.
      std::ignore = co_await renew_session(limits(stopping_), session);
      continue;
    }
    if (!alive) continue;
    identity_.ticket = alive->ticket;
    identity_.fs_clock_offset_ns = alive->fs_time.ns - executor().now().since_start.count();
    keep_session();
    locks_.heard();
  }
}

job::Task<Result<rpc::RawReply>> Cluster::ask_meta(wire::Op op, ByteView body, Limits limits,
                                                   std::uint32_t reply_room) {
  auto open = co_await ensure_session(limits);
  if (!open) co_return std::move(open).error();
  rpc::CallOptions options = limits.call_options();
  options.reply_room = reply_room;
  const rpc::SessionEpoch session = identity_.session();
  auto reply = co_await meta_->call(op, body, options);
  if (reply || !session_ended(reply.code()) || limits.only_in) co_return reply;
  auto renewed = co_await renew_session(limits, session);
  if (!renewed) co_return std::move(renewed).error();
  reply = co_await meta_->call(op, body, options);
  co_return reply;
}

job::Task<Result<void>> Cluster::copies_dropped(job::StopToken stop) {
  if (options_.copies == nullptr) co_return Result<void>();
  // The other thread's: it may outlive this wait, but not the executor.
  const auto dropped = std::make_shared<job::Event>(executor());
  UniqueFunction<void()> tell = [dropped, &executor = executor()] { executor.post([dropped] { dropped->set(); }); };
  if (!options_.copies->when_dropped(std::move(tell))) co_return Result<void>();
  auto waited = co_await dropped->wait(stop);
  co_return waited;
}

/// What is kept must not be older than a change that has been answered, here or to anybody.
job::Task<Result<rpc::RawReply>> Cluster::change_meta(wire::Op op, ByteView body, Limits limits,
                                                      const ChangePlan& plan) {
  if (!attributes_.on()) {
    auto reply = co_await send_change(op, body, limits);
    co_return reply;
  }
  OwnChange change(attributes_, plan);
  // Others may see the change before its answer is here.
  auto dropped = co_await copies_dropped(limits.stop);
  if (!dropped) {
    change.end_without_effect();
    co_return std::move(dropped).error();
  }
  auto reply = co_await send_change(op, body, limits);
  if (!reply) {
    // Should it take effect later, the server must not take it for a change that this client knows of: a new greeting
    // says so.
    if (may_be_under_way(reply.code())) meta_->greet_again();
    if (without_effect(op, reply.code())) change.end_without_effect();
    co_return reply;
  }
  if ((reply->features & wire::kFeatureLeases) == 0) co_return reply;
  wire::Touched touched;
  wire::Reader reader(reply->body);
  reader(touched);
  wire::Granted granted;
  if ((reply->features & wire::kFeatureGrants) != 0) reader(granted);
  if (!reader.decoder().ok()) co_return Error(Errc::kProtocol, meta_->name() + " sent a reply that cannot be read");
  reply->body = reply->body.last(reader.decoder().remaining());
  change.end(touched, granted);
  if (granted.granted) locks_.listen_for_recalls();
  SPATE_CO_TRY(std::ignore, co_await copies_dropped({}));
  co_return reply;
}

job::Task<Result<rpc::RawReply>> Cluster::send_change(wire::Op op, ByteView body, Limits limits) {
  auto open = co_await ensure_session(limits);
  if (!open) co_return std::move(open).error();
  RequestSlots::Params params;
  params.request_id = options_.handover == nullptr ? 0 : limits.request_id;
  if (params.request_id != 0) params.digest = digest_of(op, body);
  auto slot = co_await slots_.acquire(params, limits.stop);
  if (!slot) co_return std::move(slot).error();
  rpc::CallOptions options = limits.call_options();
  options.id = slot->id();
  for (int tries = 1;; ++tries) {
    const rpc::SessionEpoch session = identity_.session();
    if (limits.data_of) {
      if (locks_.lost(*limits.data_of)) co_return Errc::kLostLock;
      options.only_in = session;
    }
    auto reply = co_await meta_->call(op, body, options);
    if (reply || !session_ended(reply.code()) || limits.only_in || tries == kMostSessions) co_return reply;
    // The session had run out before this request came: it was refused, not run. (Had it been sent before, an expired
    // session still has its answer, and of one that is gone we hear kForgottenRequest.)
    auto renewed = co_await renew_session(limits, session);
    if (!renewed) co_return std::move(renewed).error();
  }
}

}  // namespace spate::client
