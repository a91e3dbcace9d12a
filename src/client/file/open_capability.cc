// SPDX-License-Identifier: Apache-2.0
#include "client/file/open_capability.h"

#include "model/defect.h"

namespace spate::client {

OpenCapability::OpenCapability(Cluster& cluster, const Layout& layout, Params params)
    : cluster_(cluster),
      session_(cluster.session()),
      layout_(layout),
      handle_(params.handle),
      rights_(rights_of(params.open_flags)),
      by_user_((params.open_flags & wire::kOpenByUser) != 0),
      uncounted_((params.open_flags & wire::kOpenUncounted) != 0),
      capability_(std::move(params.first)),
      renew_turn_(cluster.executor(), 1) {}

/// A change needs the locks on the file that it began with. If they were lost with their epoch, the change must not be
/// made in the next epoch, in which others may have locks. The caller passes on a copy of the capability, so that the
/// io servers refuse it once its own epoch has ended.
Result<Capability> OpenCapability::to_change() const {
  if (!planted(Defect::kWriteAfterLoss) && cluster_.locks().lost(handle_)) return Errc::kLostLock;
  return capability_;
}

bool OpenCapability::in_current_epoch() const { return epoch() == session_.identity().session(); }

job::Task<Result<void>> OpenCapability::make_current(Limits limits) {
  SPATE_CO_TRY(std::ignore, co_await session_.ensure_open(limits));
  if (!targets_known_) {
    SPATE_CO_TRY(std::ignore, co_await session_.learn_targets(layout_, limits));
    targets_known_ = true;
  }
  if (in_current_epoch()) co_return Result<void>();
  const Capability old = capability_;
  auto renewed = co_await renew(limits, old, Errc::kSessionFenced);
  co_return renewed;
}

job::Task<Result<void>> OpenCapability::renew(Limits limits, Capability refused, Errc why) {
  SPATE_CO_TRY(const auto turn, co_await renew_turn_.acquire(1, limits.stop));
  if (capability_.mac != refused.mac) co_return Result<void>();  // another operation has renewed it already
  if (why == Errc::kSessionFenced) {
    const rpc::SessionEpoch ended{refused.client, refused.session_epoch};
    SPATE_CO_TRY(std::ignore, co_await session_.renew(limits, ended));
  }
  auto opened = co_await open_again(limits);
  co_return opened;
}

/// In the session in which the file is open, this asks only for the capability. In a later session it opens the file
/// again.
job::Task<Result<void>> OpenCapability::open_again(Limits limits) {
  wire::OpenRequest request;
  request.where.start = handle_;
  if (allows(rights_, Rights::kRead)) request.open_flags |= wire::kOpenRead;
  if (allows(rights_, Rights::kWrite)) request.open_flags |= wire::kOpenWrite;
  if (by_user_) request.open_flags |= wire::kOpenByUser;
  if (uncounted_) request.open_flags |= wire::kOpenUncounted;
  request.renew = in_current_epoch() && !uncounted_;
  auto reply = co_await ask_to_open(cluster_, request, limits);
  if (!reply) co_return std::move(reply).error().within("the file must be opened again");
  const rpc::SessionEpoch opened_in{reply->capability.client, reply->capability.session_epoch};
  if (epoch() != opened_in) interrupted_ = true;
  uncounted_ = (request.open_flags & wire::kOpenUncounted) != 0;
  capability_ = reply->capability;
  co_return Result<void>();
}

Rights rights_of(std::uint8_t open_flags) {
  unsigned rights = 0;
  if ((open_flags & wire::kOpenRead) != 0) rights |= static_cast<unsigned>(Rights::kRead);
  if ((open_flags & wire::kOpenWrite) != 0) rights |= static_cast<unsigned>(Rights::kWrite);
  return static_cast<Rights>(rights);
}

job::Task<Result<wire::OpenReply>> ask_to_open(Cluster& cluster, wire::OpenRequest& request, Limits limits) {
  constexpr std::uint8_t kNew = wire::kOpenByUser | wire::kOpenUncounted | wire::kOpenNotesRead;
  auto reply = co_await cluster.change(request, limits);
  if (reply.code() == Errc::kInvalidArgument && (request.open_flags & kNew) != 0) {
    request.open_flags &= static_cast<std::uint8_t>(~kNew);
    reply = co_await cluster.change(request, limits);
  }
  co_return reply;
}

}  // namespace spate::client
