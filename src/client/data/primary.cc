// SPDX-License-Identifier: Apache-2.0
#include "client/data/primary.h"

#include "job/deadline.h"
#include "job/gate.h"

namespace spate::client {
namespace {

/// A primary that has not answered for kSilence may be gone. Then the client asks the meta server which member leads,
/// and asks again every kAskAgainWhoLeads.
constexpr Duration kSilence = std::chrono::seconds(1);
constexpr Duration kAskAgainWhoLeads = std::chrono::milliseconds(500);
/// The pause after a member has said that it does not lead. It doubles up to the longest pause.
constexpr Duration kFirstPause = std::chrono::milliseconds(20);
constexpr Duration kLongestPause = std::chrono::milliseconds(500);

/// One call of the request.
struct Attempt {
  Session& session;
  TargetId group;
  TargetId primary;
  job::StopSource& source;  // stops the call
  bool moved = false;       // stopped because another member leads
};

/// Runs beside the call until `answered` stops it. Stops the call when another member leads the group.
job::Task<void> watch(Attempt& attempt, Limits limits, job::StopToken answered) {
  job::Executor& executor = attempt.session.executor();
  const std::vector<TargetId> group(1, attempt.group);
  Duration pause = kSilence;
  for (;;) {
    const auto slept = co_await executor.sleep(pause, answered);
    if (!slept) co_return;
    pause = kAskAgainWhoLeads;
    limits.stop = answered;
    const auto learned = co_await attempt.session.learn_groups(group, limits);
    if (answered.stopped()) co_return;
    const DataGroup* const now = attempt.session.servers().groups().find(attempt.group);
    if (!learned || now == nullptr || now->primary == attempt.primary) continue;
    attempt.moved = true;
    attempt.source.request_stop();
    co_return;
  }
}

/// The share, with the channel to the present primary of its group.
Result<Share> share_now(Session& session, const Share& share) {
  Share now = share;
  SPATE_TRY(now.channel, session.servers().io_channel(share.group));
  return now;
}

job::Task<Result<void>> call_once(Session& session, const Share& share, Limits limits, ShareCall& once, bool& moved) {
  SPATE_CO_TRY(Share now, share_now(session, share));
  job::DeadlineScope scope(session.executor(), limits.deadline, limits.stop);
  now.stop = scope.token();
  Attempt attempt{session, share.group, session.servers().groups().find(share.group)->primary, scope.source()};
  job::StopSource answered;
  job::Gate watching(session.executor());
  job::spawn(watching, watch(attempt, limits, answered));
  auto done = co_await once(now);
  answered.request_stop();
  co_await watching.close();
  moved = attempt.moved;
  co_return done;
}

Error nobody_leads(TargetId group, const Error& last) {
  std::string text = "no io server of group " + std::to_string(group.value) +
                     " of targets has answered as its primary before the deadline";
  if (last.code() == Errc::kNotPrimary && !last.context().empty()) text += ": " + std::string(last.context());
  return Error::told(Errc::kTimeout, std::move(text));
}

}  // namespace

job::Task<Result<void>> at_primary(Session& session, const Share& share, Limits limits, ShareCall once) {
  job::Executor& executor = session.executor();
  const std::vector<TargetId> group(1, share.group);
  Duration pause = kFirstPause;
  for (;;) {
    bool moved = false;
    auto done = co_await call_once(session, share, limits, once, moved);
    if (done || (!moved && done.code() != Errc::kNotPrimary)) co_return done;
    if (limits.stop.stopped()) co_return done;
    if (executor.now() + pause >= limits.deadline) co_return nobody_leads(share.group, done.error());
    if (moved) continue;
    const std::uint64_t before = session.servers().groups().find(share.group)->epoch;
    SPATE_CO_TRY(std::ignore, co_await session.learn_groups(group, limits));
    if (session.servers().groups().find(share.group)->epoch != before) continue;
    const auto slept = co_await executor.sleep(pause, limits.stop);
    if (!slept) co_return Error(limits.stop.reason());
    pause = std::min(pause * 2, kLongestPause);
  }
}

job::Task<Result<void>> settle_doubts(const TransferTarget& target, std::span<const std::uint32_t> slots,
                                      Limits limits) {
  std::vector<TargetId> doubted;
  for (const std::uint32_t slot : slots) {
    const TargetId id = target.layout.slots[slot].targets.front();
    if (target.session.servers().groups().in_doubt(id)) doubted.push_back(id);
  }
  if (doubted.empty()) co_return Result<void>();
  auto learned = co_await target.session.learn_groups(std::move(doubted), limits);
  co_return learned;
}

}  // namespace spate::client
