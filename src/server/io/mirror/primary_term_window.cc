// SPDX-License-Identifier: Apache-2.0
// The windows of the change log: what all members have made durable need not be noted any longer.
#include <algorithm>

#include "job/run_all.h"
#include "log/fields.h"
#include "log/log.h"
#include "model/defect.h"
#include "server/io/mirror/member_changes.h"
#include "server/io/mirror/primary_term.h"

namespace spate::io {

job::Task<Result<void>> PrimaryTerm::window_of(MirrorFollowerPtr follower, std::uint64_t window, bool forget) {
  wire::MirrorWindowRequest request;
  request.group = group_.id;
  request.epoch = group_.record.epoch;
  request.up_to = window;
  request.forget = forget;
  rpc::CallOptions options;
  options.deadline = parts_.executor.now() + std::chrono::seconds(60);
  options.stop = follower->gone;
  SPATE_CO_TRY(const auto reply, co_await host_.peers().call<wire::MirrorWindowReply>(
                                     follower->server, MirrorPeers::Lane::kData, request, options));
  if (reply.verdict != wire::MirrorVerdict::kDone)
    co_return Error(Errc::kTryAgain, "the member does not accept this epoch yet");
  if (reply.status != Errc::kOk) co_await forwarder_.evict(follower, "it could not make changes durable");
  if (reply.status != Errc::kOk) co_return reply.status;
  co_return Result<void>();
}

job::Task<void> PrimaryTerm::close_window() {
  if (!leads() || !group_.record.is_whole() || group_.log.size() == 0) co_return;
  const job::Gate::Holder in(gate_);
  const std::uint64_t window = forwarder_.next_window();
  const auto ended = co_await forwarder_.wait_until_done();  // also those that began in earlier windows
  if (!ended) co_return;
  const std::uint64_t epoch = group_.record.epoch;
  std::vector<MirrorFollowerPtr> all;
  for (const auto& [target, follower] : forwarder_.followers()) all.push_back(follower);
  std::vector<job::Task<Result<void>>> tasks;
  if (!planted(Defect::kLogDroppedEarly)) {
    tasks.push_back(sync_noted(parts_, group_, window, token()));
    for (const MirrorFollowerPtr& follower : all) tasks.push_back(window_of(follower, window, false));
  }
  Result<void> done = co_await job::run_all(parts_.executor, std::move(tasks));
  if (!done || !leads() || group_.record.epoch != epoch) co_return;
  // All members have all changes of the window. A member that receives this news never lacks them, even after a crash.
  for (const MirrorFollowerPtr& follower : all) std::ignore = co_await window_of(follower, window, true);
  done = co_await group_.log.forget(window);
  if (!done) SPATE_LOG("server/io", warn, "notes of changes stay for now group={} error={}", group_.id, done.error());
}

}  // namespace spate::io
