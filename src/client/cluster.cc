// SPDX-License-Identifier: Apache-2.0
#include "client/cluster.h"

#include <algorithm>

#include "log/fields.h"
#include "log/log.h"

namespace spate::client {
namespace {

bool session_ended(Errc code) { return code == Errc::kSessionFenced || code == Errc::kSessionUnknown; }

}  // namespace

Cluster::Cluster(Options options, job::NetworkContext& network, Random& random)
    : options_(std::move(options)), network_(network), random_(random), traces_(random.next()), slots_(network.executor()), offload_(network.executor()), locks_(*this), appends_(network.executor(), locks_), gate_(network.executor()) {
  identity_.kind = wire::PeerKind::kClient;
  identity_.fs = options_.map.fs;
  identity_.key = options_.client_key;
  identity_.credential = options_.credential;
  identity_.description = options_.description;
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
  return std::make_unique<rpc::Channel>(std::move(options), network_, identity_, random_);
}

Limits Cluster::limits(job::StopToken stop) {
  return {network_.executor().now() + options_.deadline, stop, TraceId(traces_.next())};
}

WallTime Cluster::fs_time() const {
  return WallTime{network_.executor().clock().wall().ns + identity_.fs_clock_offset_ns};
}

job::Task<void> Cluster::stop(Limits limits) {
  stopping_.request_stop();
  co_await locks_.stop();
  co_await appends_.stop();
  if (identity_.client) {
    const wire::EndSessionRequest request;
    auto ended = co_await ask<wire::EndSessionReply>(request, limits);
    if (!ended) SPATE_LOG("client", debug, "session not ended error={}", ended.error());
  }
  co_await gate_.close();
}

Result<rpc::Channel*> Cluster::io_channel(TargetId target) {
  const ServerEntry* server = options_.map.server_of_target(target);
  if (server == nullptr) {
    return Error(Errc::kStaleMap, "target " + std::to_string(target.value) + " is not in this client's spate.toml");
  }
  return channels_[server->id].get();
}

job::Task<Result<void>> Cluster::ensure_session(Limits limits) {
  // A ticket alone may be of a greeting whose session was never confirmed: the server went away in between.
  if (identity_.ticket && slots_.ready()) co_return Result<void>();
  auto alive = co_await renew_session(limits);
  co_return alive;
}

job::Task<Result<void>> Cluster::renew_session(Limits limits) {
  meta_->greet_again();
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
  identity_.ticket = alive->ticket;
  for (auto& [id, channel] : channels_) {
    if (channel.get() != meta_) channel->greet_again();  // with the new ticket
  }
  slots_.reset(identity_.answer_slots);
  if (!keeping_alive_) {
    keeping_alive_ = true;
    job::spawn(gate_, keep_alive());
  }
  co_return Result<void>();
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
    auto alive = co_await meta_->call<wire::KeepAliveReply>(request, options);
    if (!alive) continue;
    identity_.ticket = alive->ticket;
    locks_.heard();
  }
}

job::Task<Result<rpc::RawReply>> Cluster::ask_meta(wire::Op op, ByteView body, Limits limits, std::uint32_t reply_room) {
  auto open = co_await ensure_session(limits);
  if (!open) co_return std::move(open).error();
  rpc::CallOptions options = limits.call_options();
  options.reply_room = reply_room;
  auto reply = co_await meta_->call(op, body, options);
  if (reply || !session_ended(reply.code())) co_return reply;
  auto renewed = co_await renew_session(limits);
  if (!renewed) co_return std::move(renewed).error();
  reply = co_await meta_->call(op, body, options);
  co_return reply;
}

job::Task<Result<rpc::RawReply>> Cluster::change_meta(wire::Op op, ByteView body, Limits limits) {
  auto open = co_await ensure_session(limits);
  if (!open) co_return std::move(open).error();
  auto slot = co_await slots_.acquire(limits.stop);
  if (!slot) co_return std::move(slot).error();
  rpc::CallOptions options = limits.call_options();
  options.id = slot->id();
  auto reply = co_await meta_->call(op, body, options);
  if (reply || !session_ended(reply.code())) co_return reply;
  // The session had run out before this request came: it was refused, not run. (Had it been sent before, an expired
  // session still has its answer, and of one that is gone we hear kForgottenRequest.)
  auto renewed = co_await renew_session(limits);
  if (!renewed) co_return std::move(renewed).error();
  reply = co_await meta_->call(op, body, options);
  co_return reply;
}

}  // namespace spate::client
