// SPDX-License-Identifier: Apache-2.0
// Cluster: what closes need. One that its caller does not wait for any longer goes on.
#include <algorithm>

#include "client/session/cluster.h"
#include "job/deadline.h"
#include "job/event.h"

namespace spate::client {

struct Cluster::Closing {
  explicit Closing(job::Executor& executor) : ended(executor) {}
  Result<wire::CloseReply> reply = Errc::kUnknown;
  UniqueFunction<void()> on_ended;
  job::Event ended;
};

/// Under one request id as long as it takes: under another one it could end another open of the file.
job::Task<void> Cluster::close_for_sure(wire::CloseRequest request, Limits limits, std::shared_ptr<Closing> closing) {
  closing->reply = co_await change<wire::CloseReply>(request, limits);
  if (closing->on_ended && closing->reply.code() != Errc::kCancelled) closing->on_ended();
  closing->ended.set();
}

job::Task<Result<wire::CloseReply>> Cluster::close(wire::CloseRequest request, rpc::SessionEpoch opened_in,
                                                   Limits limits, UniqueFunction<void()> on_ended) {
  // Shared with the close itself, which may outlive this call.
  const auto closing = std::make_shared<Closing>(executor());
  closing->on_ended = std::move(on_ended);
  Limits for_sure = limits;
  for_sure.deadline = MonoTime::never();
  for_sure.stop = stopping_;
  for_sure.only_in = opened_in;
  auto close = close_for_sure(std::move(request), for_sure, closing);
  if (!job::spawn(gate_, std::move(close))) co_return Errc::kCancelled;
  job::DeadlineScope scope(executor(), limits.deadline, limits.stop);
  const auto waited = co_await closing->ended.wait(scope.token());
  if (!waited && closing->reply.code() == Errc::kUnknown) {
    if (waited.code() != Errc::kTimeout) co_return waited.error();
    co_return Error(Errc::kTimeout, meta_->name() + " has not answered a close yet");
  }
  // Of a descriptor that a program has: it is told that its session ended, not that there is no such descriptor.
  const Errc code = closing->reply.code();
  if (session_ended(code) || code == Errc::kBadDescriptor)
    co_return Error(Errc::kSessionFenced, "the file was closed with its session");
  co_return std::move(closing->reply);
}

bool Cluster::any_restarted() const {
  const std::lock_guard lock(channels_mutex_);
  return std::any_of(channels_.begin(), channels_.end(),
                     [](const auto& entry) { return entry.second->has_restarted(); });
}

}  // namespace spate::client
