// SPDX-License-Identifier: Apache-2.0
#include "group/leader.h"

#include <algorithm>

#include "job/run_all.h"
#include "log/fields.h"
#include "log/log.h"
#include "model/defect.h"

namespace spate::group {

Leader::Leader(LeaderOptions options, Leadership& leadership, Link& link, job::KeyvalContext& store,
               trove::ReplicatedKeyval& keyval, LocalLog& log)
    : options_(options),
      leadership_(leadership),
      link_(link),
      store_(store),
      executor_(store.executor()),
      keyval_(keyval),
      log_(log),
      recent_(keyval.last()),
      gate_(executor_),
      progress_(executor_),
      new_entry_(executor_),
      sync_wanted_(executor_) {
  for (const MemberEntry& member : leadership_.record().members) {
    if (member.server == options_.self) continue;
    Follower& follower = followers_.emplace_back();
    follower.server = member.server;
    follower.progressed = executor_.now();
    follower.answered = executor_.now();  // its time to answer begins now
  }
  record_changed();
}

Leader::~Leader() {
  keyval_.on_entry({});
  keyval_.on_sync_wanted({});
}

void Leader::start() {
  keyval_.on_entry([this](trove::LogPosition at, EntryRef entry) { note_entry(at, std::move(entry)); });
  keyval_.on_sync_wanted([this] { sync_wanted_.set(); });
  for (Follower& follower : followers_) {
    job::spawn(gate_, beat(follower));
    job::spawn(gate_, feed(follower));
  }
  job::spawn(gate_, mind_members());
  job::spawn(gate_, sync_when_wanted());
}

void Leader::halt() {
  stopping_.request_stop();
  pulse();  // coroutines that wait learn that it no longer leads
}

job::Task<void> Leader::stop() {
  halt();
  co_await gate_.close();
}

void Leader::record_changed() {
  const GroupRecord& record = leadership_.record();
  for (Follower& follower : followers_) {
    const bool serves = record.serves(follower.server);
    follower.required = serves || (follower.promoting && follower.required);
    if (!serves) follower.unfit = false;
  }
  keyval_.lacks_copies(record.serving() < record.min && !planted(Defect::kMinIgnored));
  note_space();
  pulse();
}

/// Tells the store whether a required member is short of space. While one is, only changes that free space should run.
void Leader::note_space() {
  const auto is_short = [](const Follower& follower) { return follower.required && follower.short_of_space; };
  keyval_.others_short_of_space(std::any_of(followers_.begin(), followers_.end(), is_short));
}

void Leader::pulse() {
  progress_.set();
  progress_.reset();
}

void Leader::note_entry(trove::LogPosition at, EntryRef entry) {
  recent_.add(at, std::move(entry));
  new_entry_.set();
  new_entry_.reset();
}

std::uint64_t Leader::replicated() const {
  std::uint64_t least = keyval_.last().index;
  for (const Follower& follower : followers_) {
    if (follower.required) least = std::min(least, follower.matched);
  }
  return least;
}

bool Leader::has_copies(std::uint64_t index) const {
  std::size_t holders = index <= keyval_.last().index ? 1 : 0;
  for (const Follower& follower : followers_) {
    if (follower.state == Follower::State::kStream && follower.matched >= index) ++holders;
  }
  return holders >= leadership_.record().min || planted(Defect::kMinIgnored);
}

MonoTime Leader::leased_until() const {
  bool alone = true;
  MonoTime until = MonoTime::never();
  const Duration lease = planted(Defect::kLongLease) ? 4 * options_.timing.lease : options_.timing.lease;
  for (const Follower& follower : followers_) {
    if (!follower.required) continue;
    alone = false;
    until = std::min(until, follower.leased ? *follower.leased + lease : MonoTime());
  }
  if (alone && !planted(Defect::kSleeperLeads)) until = leadership_.awake_until();
  return until;
}

bool Leader::out_of_touch() const {
  // A silent member is evicted after `grace` if the record can be changed. That gets `message` to be done.
  const MonoTime now = executor_.now();
  const Duration most = options_.timing.grace + options_.timing.message;
  const auto silent = [&](const Follower& follower) { return follower.required && now - follower.answered >= most; };
  return std::any_of(followers_.begin(), followers_.end(), silent);
}

ServerId Leader::successor() const {
  for (const Follower& follower : followers_) {
    const bool fit = follower.required && !follower.promoting && !follower.unfit;
    if (fit && follower.matched == keyval_.last().index) return follower.server;
  }
  return {};
}

std::shared_ptr<Message> Leader::message(MessageKind kind) const {
  auto out = std::make_shared<Message>();
  out->kind = kind;
  out->group = options_.group;
  out->from = options_.self;
  out->record = leadership_.record();
  out->revision = leadership_.revision();
  out->epoch = out->record.epoch;
  return out;
}

bool Leader::note(Follower& follower, const Answer& answer) {
  if (!answer.accepted) {
    if (answer.epoch > leadership_.record().epoch) leadership_.contradicted();
    return false;
  }
  // Another run of its process has answered: what the earlier run has acknowledged may be lost.
  if (answer.process != follower.process && follower.state == Follower::State::kStream) {
    follower.state = Follower::State::kProbe;
    new_entry_.set();  // its task may be waiting for an entry
    new_entry_.reset();
  }
  follower.short_of_space = answer.short_of_space;
  note_space();
  const bool lacks = answer.tail_unknown || answer.incomplete;
  if (lacks && answer.revision >= leadership_.revision() && leadership_.record().serves(follower.server)) {
    follower.unfit = true;
  }
  return true;
}

// Beacons: they renew the lease, so nothing that takes time may delay them.

job::Task<void> Leader::beat(Follower& follower) {
  const job::StopToken stop(stopping_);
  while (!stop.stopped()) {
    job::spawn(gate_, beat_once(follower));
    if (out_of_touch()) pulse();
    std::ignore = co_await executor_.sleep(options_.timing.beacon, stop);
  }
}

job::Task<void> Leader::beat_once(Follower& follower) {
  const MonoTime sent = executor_.now();
  const std::shared_ptr<const Message> beacon = message(MessageKind::kBeacon);
  const auto answer = co_await link_.send(follower.server, beacon, options_.timing.message, stopping_);
  if (!answer || stopping_.stopped() || !note(follower, *answer)) co_return;
  follower.leased = std::max(follower.leased.value_or(sent), sent);
  follower.answered = std::max(follower.answered, sent);
  pulse();
}

// Which members serve.

bool Leader::must_go(const Follower& follower) const {
  if (!leadership_.record().serves(follower.server)) return false;
  if (follower.unfit || follower.state == Follower::State::kCopy) return true;
  const MonoTime now = executor_.now();
  return now - follower.answered >= options_.timing.grace || now - follower.progressed >= options_.timing.stalled;
}

bool Leader::may_serve(const Follower& follower) const {
  if (leadership_.record().serves(follower.server) || follower.state != Follower::State::kStream) return false;
  if (follower.promoting || follower.short_of_space || executor_.now() < follower.not_before) return false;
  if (planted(Defect::kJoiningServes)) return true;
  const bool heard = executor_.now() - follower.answered < options_.timing.lease;
  return heard && follower.matched + 64 >= keyval_.last().index;
}

job::Task<void> Leader::mind_members() {
  const job::StopToken stop(stopping_);
  while (!stop.stopped()) {
    const auto slept = co_await executor_.sleep(options_.timing.look, stop);
    if (!slept) co_return;
    if (keyval_.broken()) co_return leadership_.failed(Error(Errc::kIoError, "store of the group"));
    for (Follower& follower : followers_) {
      if (stop.stopped()) co_return;  // may have changed
      if (follower.matched >= keyval_.last().index) follower.progressed = executor_.now();
      if (must_go(follower)) {
        co_await evict(follower);
      } else if (may_serve(follower)) {
        follower.promoting = true;
        job::spawn(gate_, promote(follower));  // runs beside this loop: others may have to be evicted meanwhile
      }
    }
  }
}

job::Task<void> Leader::evict(Follower& follower) {
  SPATE_LOG("group", warn, "a member no longer serves group={} server={} {}", options_.group, follower.server,
            follower.unfit ? "it lacks entries" : "it does not answer or makes no progress");
  GroupRecord wanted = leadership_.record();
  wanted.find(follower.server)->serving = false;
  co_await leadership_.alter(std::move(wanted), stopping_);
}

/// A member whose disk hangs or fails must not hold up the others: nobody waits for it before it has synced. From the
/// moment when the record may say that the member serves, nothing counts as replicated without it.
job::Task<void> Leader::promote(Follower& follower) {
  const std::uint64_t process = follower.process;
  bool good = planted(Defect::kJoiningServes);
  if (!good) good = co_await has_synced(follower, process, replicated());
  if (good && !planted(Defect::kJoiningServes)) {
    follower.required = true;
    // Entries that the others have synced without this member are not beyond the last one of this moment.
    good = co_await has_synced(follower, process, keyval_.last().index);
  }
  if (good && !stopping_.stopped()) {
    GroupRecord wanted = leadership_.record();
    MemberEntry* const entry = wanted.find(follower.server);
    entry->serving = true;
    entry->process = process;
    co_await leadership_.alter(std::move(wanted), stopping_);
    if (leadership_.record().serves(follower.server)) {
      SPATE_LOG("group", info, "a member serves again group={} server={}", options_.group, follower.server);
      follower.unfit = follower.process != process;
    }
  }
  if (!good) follower.not_before = executor_.now() + options_.timing.stalled / 2;
  follower.promoting = false;
  record_changed();
}

job::Task<bool> Leader::has_synced(Follower& follower, std::uint64_t process, std::uint64_t needed) {
  const MonoTime until = executor_.now() + options_.timing.lease;
  while (follower.matched < needed && executor_.now() < until) {
    const auto slept = co_await executor_.sleep(options_.timing.look / 10, stopping_);
    if (!slept) co_return false;
  }
  if (follower.matched < needed || follower.process != process) co_return false;
  const std::shared_ptr<const Message> sync = message(MessageKind::kSync);
  const auto answer = co_await ask(follower, sync, options_.timing.message);
  const bool synced = answer && answer->matched && answer->process == process && answer->up_to >= needed;
  co_return synced&& follower.process == process&& follower.state == Follower::State::kStream;
}

// Syncs.

job::Task<void> Leader::sync_when_wanted() {
  const job::StopToken stop(stopping_);
  while (!stop.stopped()) {
    const auto woken = co_await sync_wanted_.wait(stop);
    if (!woken) co_return;
    sync_wanted_.reset();
    const std::uint64_t target = keyval_.last().index;
    std::vector<job::Task<Result<void>>> tasks;
    tasks.push_back(sync_here());
    for (Follower& follower : followers_) tasks.push_back(sync_at(follower, target));
    const auto done = co_await job::run_all(executor_, std::move(tasks));
    if (stop.stopped()) co_return;
    if (!done) co_return leadership_.failed(done.error());
    keyval_.synced(target);
    if (keyval_.sync_wanted() > target) sync_wanted_.set();
  }
}

job::Task<Result<void>> Leader::sync_here() {
  SPATE_CO_TRY(std::ignore, co_await log_.sync());
  co_return Result<void>();
}

/// Retries until the member has synced that far or is no longer required.
job::Task<Result<void>> Leader::sync_at(Follower& follower, std::uint64_t target) {
  const job::StopToken stop(stopping_);
  while (follower.required && follower.synced < target && !stop.stopped()) {
    if (follower.matched < target) {
      std::ignore = co_await progress_.wait(stop);
      continue;
    }
    const std::shared_ptr<const Message> sync = message(MessageKind::kSync);
    const std::uint64_t process = follower.process;
    const auto answer = co_await ask(follower, sync, options_.timing.message);
    const bool good = answer && answer->matched && answer->process == process;
    if (good) {
      follower.synced = std::max(follower.synced, answer->up_to);
    } else {
      std::ignore = co_await executor_.sleep(options_.timing.look, stop);
    }
  }
  co_return Result<void>();
}

}  // namespace spate::group
