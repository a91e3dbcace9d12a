// SPDX-License-Identifier: Apache-2.0
// File: its capability, and what becomes of it when the session goes on in another epoch.
#include "client/file/file_operation.h"
#include "model/defect.h"
namespace spate::client {

/// What to show to the io servers. A change needs the locks on the file that there were: one that was begun before they
/// were lost with their epoch is not made in the next one, when others may have them. Whoever uses it passes it on by
/// value, so that the io servers refuse it once its own epoch has ended.
Result<Capability> File::capability_to(bool change) const {
  if (change && !planted(Defect::kWriteAfterLoss) && cluster_.locks().lost(handle_)) return Errc::kLostLock;
  return capability_;
}

bool File::opened_in(const rpc::SessionEpoch& session) const {
  return capability_.client == session.client && capability_.session_epoch == session.epoch;
}

/// The session is open, and so is the file in its current epoch; the servers that hold it are known.
job::Task<Result<void>> File::make_current(Limits limits) {
  SPATE_CO_TRY(std::ignore, co_await cluster_.ensure_session(limits));
  if (!targets_known_) {
    SPATE_CO_TRY(std::ignore, co_await cluster_.learn_targets(layout_, limits));
    targets_known_ = true;
  }
  if (opened_in(cluster_.identity().session())) co_return Result<void>();
  const Capability old = capability_;
  auto renewed = co_await renew(limits, old, Errc::kSessionFenced);
  co_return renewed;
}

/// `refused` is of no use any more: `why`. Only this file is concerned: what others have under way goes on.
job::Task<Result<void>> File::renew(Limits limits, Capability refused, Errc why) {
  auto turn = co_await renew_turn_.acquire(1, limits.stop);
  if (!turn) co_return std::move(turn).error();
  if (capability_.mac != refused.mac) co_return Result<void>();  // another operation has asked already
  if (why == Errc::kSessionFenced) {
    const rpc::SessionEpoch ended{refused.client, refused.session_epoch};
    SPATE_CO_TRY(std::ignore, co_await cluster_.renew_session(limits, ended));
  }
  auto opened = co_await open_again(limits);
  co_return opened;
}

/// As ask_datafiles(), under a capability that is good.
job::Task<Result<std::vector<SlotState>>> File::ask_slots(std::vector<std::uint32_t> slots, bool sync, Limits limits) {
  for (int tries = 1;; ++tries) {
    SPATE_CO_TRY(std::ignore, co_await make_current(limits));
    const Capability capability = capability_;
    auto states = co_await ask_datafiles(target(capability), slots, sync, limits);
    if (states || !must_renew(states.code()) || tries == kMostRenewals) co_return states;
    SPATE_CO_TRY(std::ignore, co_await renew(limits, capability, states.code()));
  }
}

job::Task<Result<wire::OpenReply>> ask_to_open(Cluster& cluster, wire::OpenRequest& request, Limits limits) {
  auto reply = co_await cluster.change<wire::OpenReply>(request, limits);
  if (reply.code() == Errc::kInvalidArgument && (request.open_flags & wire::kOpenByUser) != 0) {
    request.open_flags &= static_cast<std::uint8_t>(~wire::kOpenByUser);
    reply = co_await cluster.change<wire::OpenReply>(request, limits);
  }
  co_return reply;
}

/// In the session in which the file is open only its capability is asked for; in a later one each open counts anew.
job::Task<Result<void>> File::open_again(Limits limits) {
  wire::OpenRequest request;
  request.where.start = handle_;
  if (allows(rights_, Rights::kRead)) request.open_flags |= wire::kOpenRead;
  if (allows(rights_, Rights::kWrite)) request.open_flags |= wire::kOpenWrite;
  if (by_user_) request.open_flags |= wire::kOpenByUser;
  request.renew = opened_in(cluster_.identity().session());
  auto reply = co_await ask_to_open(cluster_, request, limits);
  if (!reply) co_return std::move(reply).error().within("the file must be opened again");
  // Between the end of one session, or epoch, and the next the file was not open: others may have written it alone.
  if (!opened_in({reply->capability.client, reply->capability.session_epoch})) uncertain_ = true;
  capability_ = reply->capability;
  co_return Result<void>();
}

}  // namespace spate::client
