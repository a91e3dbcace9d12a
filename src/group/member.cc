// SPDX-License-Identifier: Apache-2.0
#include "group/member.h"

#include <algorithm>

#include "job/deadline.h"
#include "log/fields.h"
#include "log/log.h"
#include "model/defect.h"

namespace spate::group {

Member::Member(MemberOptions options, coord::Coordinator& coordinator, Link& link, job::KeyvalContext& store,
               trove::ReplicatedKeyval& keyval)
    : options_(options),
      coordinator_(coordinator),
      link_(link),
      store_(store),
      executor_(store.executor()),
      keyval_(keyval),
      log_(store, keyval, options.boot),
      wake_(options.timing.lease, executor_.now()),
      heard_(executor_.now()),
      acknowledged_(executor_.now()),
      led_(executor_),
      resigned_(executor_),
      gate_(executor_) {}

Member::~Member() = default;

job::Task<Result<void>> Member::start() {
  SPATE_CO_TRY(std::ignore, co_await log_.open());
  job::spawn(gate_, watch_clock());
  job::spawn(gate_, live());
  co_return Result<void>();
}

job::Task<void> Member::stop() {
  stopping_.request_stop();
  resign(Error(Errc::kCancelled, "the server stops"));
  if (leader_ != nullptr) co_await leader_->stop();
  co_await gate_.close();
  co_await log_.settle();
}

void Member::resign(Error why) {
  if (resigned_.is_set()) return;
  SPATE_LOG("group", info, "resigned group={} leading={}: {}", options_.group, leader_ != nullptr, why);
  why_ = std::move(why);
  keyval_.stop_leading();
  keyval_.fail_waiting(Errc::kCancelled);
  resigned_.set();
  if (leader_ != nullptr) leader_->halt();
}

Duration Member::pause() const { return why_.code() == Errc::kConflict ? Duration(0) : 2 * options_.timing.grace; }

// The record.

void Member::adopt(const GroupRecord& record, std::uint64_t revision) {
  // A later epoch may come with an earlier revision: an operator has recreated the record after etcd had lost it.
  if (revision <= revision_ && record.epoch <= record_.epoch) return;
  const bool new_epoch = record.epoch > record_.epoch || revision_ == 0;
  record_ = record;
  revision_ = revision;
  accusing_ = false;  // the accusation is settled, since the record has changed
  if (new_epoch) {
    heard_ = executor_.now();
    handed_over_ = false;
  }
  if (leader_ == nullptr) return;
  if (new_epoch || record.primary != options_.self) return resign(Error(Errc::kConflict, "another member leads"));
  leader_->record_changed();
}

/// False: it could not be read.
job::Task<bool> Member::read_record() {
  const std::string key = record_key(options_.group);
  const std::uint64_t sleeps = wake_.sleeps();
  const auto seen = co_await coordinator_.read(key, stopping_);
  if (!seen) co_return false;
  const coord::Record* const found = seen->find(key);
  if (found == nullptr) co_return false;
  const auto record = decode_group_record(found->value);
  if (!record) {
    resign(record.error());
    co_return false;
  }
  read_at_ = executor_.now();
  adopt(*record, found->revision);
  if (wake_.has_read(sleeps) && leader_ != nullptr) leader_->pulse();
  co_return true;
}

job::Task<void> Member::alter(GroupRecord wanted, job::StopToken stop) {
  const std::uint64_t from = revision_;
  const std::string key = record_key(options_.group);
  // The only allowed changes are a take-over and a change by the primary of this epoch.
  SPATE_CHECK(wanted.epoch == record_.epoch + 1 || (wanted.epoch == record_.epoch && record_.primary == options_.self));
  bool unknown = false;
  while (!stop.stopped() && revision_ == from) {
    coord::Change change;
    change.compare(key, from).put(key, encode(wanted));
    const auto made = co_await coordinator_.change(std::move(change), stop);
    if (made) co_return adopt(wanted, *made);
    // If the outcome of a change is unknown, only another change of the record settles it: the same one again, if need
    // be.
    unknown = unknown || (made.code() == Errc::kTimeout && !planted(Defect::kUnknownIsNo));
    if (!unknown && made.code() != Errc::kConflict) co_return;
    if (made.code() == Errc::kConflict && co_await read_record()) co_return;
    std::ignore = co_await executor_.sleep(options_.timing.look, stop);
  }
}

bool Member::found_complete() const {
  const MemberEntry* const self = record_.find(options_.self);
  return self != nullptr && self->serving && self->process == options_.process;
}

/// Declares the log complete once the primary of this process's time has found that this member holds everything.
job::Task<void> Member::note_complete() {
  // Nobody has led yet, so an empty log is complete.
  const bool begins = log_.is_new() && record_.epoch == 1;
  if (!log_.tail_unknown() || log_.incomplete() || !(begins || found_complete())) co_return;
  const auto known = co_await log_.tail_is_known();
  if (!known) resign(known.error());
}

// Work of a member that does not lead.

job::Task<void> Member::live() {
  const job::StopToken stop(stopping_);
  while (!stop.stopped() && !resigned_.is_set()) {
    const bool due = revision_ == 0 || wake_.must_read() || executor_.now() - read_at_ >= options_.timing.read_record;
    if (due) std::ignore = co_await read_record();
    if (revision_ != 0 && leader_ == nullptr && !resigned_.is_set()) co_await step();
    std::ignore = co_await executor_.sleep(options_.timing.look, stop);
  }
}

/// Notices that this process has stood still.
job::Task<void> Member::watch_clock() {
  const job::StopToken stop(stopping_);
  while (!stop.stopped()) {
    if (wake_.look(executor_.now())) contradicted();  // somebody may have changed the record meanwhile
    std::ignore = co_await executor_.sleep(options_.timing.look, stop);
  }
}

MonoTime Member::awake_until() const {
  if (record_.members.size() == 1) return MonoTime::never();
  return wake_.awake_until();
}

bool Member::accuses() const { return handed_over_ || executor_.now() - heard_ >= options_.timing.grace; }

/// Whether this member has served and finds nothing in its store. Then it lacks everything, also if the record names
/// nobody else: as a primary it would replace the others' copies by nothing.
bool Member::has_lost_its_store() {
  const bool lost = log_.is_new() && record_.epoch > 1;
  if (lost && !told_of_loss_) {
    SPATE_LOG("group", error,
              "this member has served, and its store is empty now: it does not lead. If it was the only one that "
              "served, start it with its own store; else stop it, and `spate coord restore --without {}` lets another "
              "member lead group={}",
              options_.self.value, options_.group);
  }
  told_of_loss_ = lost;
  return lost;
}

job::Task<void> Member::step() {
  co_await note_complete();
  if (!record_.serves(options_.self) || log_.incomplete() || has_lost_its_store()) co_return;
  if (record_.epoch < log_.last().epoch) {
    SPATE_LOG(
        "group", error,
        "the coordinator knows an older epoch than this member's log: was it restored? `spate coord restore` helps "
        "group={}",
        options_.group);
    co_return;
  }
  if (log_.tail_unknown()) co_return co_await consider_tails();
  GroupRecord wanted = record_;
  ++wanted.epoch;
  wanted.primary = options_.self;
  if (record_.primary == options_.self) {
    // An earlier run of this process led. A change that it asked the coordinator for must not take effect from now on.
    if (!co_await record_is_current()) co_return;
    co_return co_await take_over(std::move(wanted));
  }
  if (!accuses()) co_return;
  if (!handed_over_ && !co_await record_is_current()) co_return;
  wanted.find(record_.primary)->serving = false;  // it is silent, or it has handed over
  co_await take_over(std::move(wanted));
}

/// Asks the other members whether they know a later epoch than the coordinator's record. If the coordinator was
/// restored from an old copy, its record may name this member, which was removed since then and lacks entries. False
/// also if the record has changed meanwhile.
job::Task<bool> Member::record_is_current() {
  const std::uint64_t revision = revision_;
  const auto question = std::make_shared<Message>();
  question->group = options_.group;
  question->from = options_.self;
  question->record = record_;
  const std::vector<MemberEntry> members = record_.members;
  for (const MemberEntry& member : members) {
    if (member.server == options_.self) continue;
    const ServerId other = member.server;
    const std::shared_ptr<const Message> sent = question;
    // Members that are silent cost little: this is part of every take-over.
    const auto answer = co_await link_.send(other, sent, options_.timing.look, stopping_);
    if (revision_ != revision || stopping_.stopped() || resigned_.is_set()) co_return false;
    if (!answer || answer->epoch <= record_.epoch) continue;
    SPATE_LOG(
        "group", error,
        "the coordinator knows an older epoch than member {}: was it restored? `spate coord restore` helps group={}",
        other.value, options_.group);
    co_return false;
  }
  co_return true;
}

job::Task<void> Member::take_over(GroupRecord wanted) {
  SPATE_LOG("group", info, "takes over group={} epoch={}", options_.group, wanted.epoch);
  accusing_ = true;
  const bool handed_over = handed_over_;
  const std::uint64_t epoch = wanted.epoch;
  if (planted(Defect::kTakeOverUnasked)) {
    adopt(wanted, revision_ + 1);
  } else {
    co_await alter(std::move(wanted), stopping_);
  }
  accusing_ = false;
  const bool ours = record_.epoch == epoch && record_.primary == options_.self;
  if (!ours || stopping_.stopped() || resigned_.is_set()) co_return;
  serves_from_ = acknowledged_;
  const bool alone = record_.members.size() == 1;
  if (!handed_over && !alone) serves_from_ = acknowledged_ + options_.timing.grace;
  co_await lead();
}

job::Task<void> Member::lead() {
  co_await log_.settle();  // the entries that the last primary sent have been appended
  if (record_.primary != options_.self || resigned_.is_set()) co_return;  // may have changed
  keyval_.lead(record_.epoch, log_.last(), log_.first());
  leader_ = std::make_unique<Leader>(LeaderOptions{options_.group, options_.self, options_.timing}, *this, link_,
                                     store_, keyval_, log_);
  leader_->start();
  job::Transaction mark(store_, keyval_.begin_mark());
  const auto done = co_await mark.commit(trove::Durability::kProcess);
  if (done.status != Errc::kOk) co_return resign(Error(done.status, "store of the group"));
  if (log_.tail_unknown()) {
    const auto known = co_await log_.tail_is_known();
    if (!known) co_return resign(known.error());
  }
  if (!resigned_.is_set()) led_.set();
}

/// If all serving members may have lost unsynced entries, makes the one with the most entries the primary.
job::Task<void> Member::consider_tails() {
  if (executor_.now() - heard_ < options_.timing.grace) co_return;
  const std::uint64_t revision = revision_;
  bool all = true;
  bool best = true;
  GroupRecord wanted = record_;
  const auto question = std::make_shared<Message>();
  question->group = options_.group;
  question->from = options_.self;
  question->record = record_;
  for (const MemberEntry& member : record_.members) {
    if (!member.serving || member.server == options_.self) continue;
    const std::shared_ptr<const Message> sent = question;
    const ServerId other = member.server;
    const auto answer = co_await link_.send(other, sent, options_.timing.message, stopping_);
    if (revision_ != revision || stopping_.stopped()) co_return;  // may have changed
    if (!answer) {
      all = false;
      wanted.find(other)->serving = false;
      continue;
    }
    // A member that knows its tail leads, or will lead.
    if (!answer->tail_unknown && !answer->incomplete) co_return;
    const bool more = answer->last > log_.last() || (answer->last == log_.last() && other < options_.self);
    best = best && (answer->incomplete || !more);
  }
  if (!all && executor_.now() - heard_ < options_.timing.tail_wait) co_return;
  if (!best) co_return;
  ++wanted.epoch;
  ++wanted.loss;
  wanted.primary = options_.self;
  SPATE_LOG(
      "group", error,
      "all members may have lost the ends of their logs; the one with the longest log takes over group={} loss={}",
      options_.group, wanted.loss);
  co_await take_over(std::move(wanted));
}

// The guarantees of a primary.

job::Task<Result<void>> Member::pass(bool needs_copies, job::StopToken stop) {
  if (leader_ == nullptr) co_return Error(Errc::kCancelled, "this member does not lead");
  const std::uint64_t needed = keyval_.last().index;
  const auto left = serves_from_ - executor_.now();
  if (left > Duration(0)) {
    SPATE_CO_TRY(std::ignore, co_await executor_.sleep_until(serves_from_, stop));
  }
  for (;;) {
    if (resigned_.is_set() || lease_ended_ || keyval_.broken()) {
      co_return Error(Errc::kCancelled, "this member does not lead any more");
    }
    const bool early = planted(Defect::kEarlyReply) || (!needs_copies && planted(Defect::kEarlyRead));
    bool replicated = leader_->replicated() >= needed || early;
    if (needs_copies) replicated = replicated && leader_->has_copies(needed);
    // Check the time last, so that a delay before this line is noticed.
    if (replicated && executor_.now() < leader_->leased_until()) co_return Result<void>();
    if (leader_->out_of_touch()) co_return Error(Errc::kNotPrimary, "the other members do not answer");
    SPATE_CO_TRY(std::ignore, co_await leader_->progress().wait(stop));
  }
}

job::Task<Result<void>> Member::hand_over(job::StopToken stop) {
  if (!leads()) co_return Error(Errc::kTryAgain, "this member does not lead");
  keyval_.stop_leading();
  const MonoTime until = executor_.now() + options_.timing.lease;
  while (leader_->successor() == ServerId() && executor_.now() < until && !stop.stopped()) {
    std::ignore = co_await executor_.sleep(options_.timing.look / 20, stop);
  }
  const ServerId successor = leader_->successor();
  if (successor == ServerId()) {
    resign(Error(Errc::kTimeout, "nobody to hand over to"));
    co_return Error(Errc::kTryAgain, "no member has everything");
  }
  lease_ended_ = true;
  const auto message = std::make_shared<Message>();
  message->kind = MessageKind::kHandOver;
  message->group = options_.group;
  message->from = options_.self;
  message->epoch = record_.epoch;
  message->revision = revision_;
  message->record = record_;
  const std::shared_ptr<const Message> sent = message;
  const auto told = co_await link_.send(successor, sent, options_.timing.message, stop);
  resign(Error(Errc::kCancelled, "handed over"));
  co_await wait_for_successor(stop);  // also if the answer was lost
  if (!told) co_return told.error();
  co_return Result<void>();
}

/// If the process ended now and were restarted at once, it would find itself in the record as the primary, and lead
/// again before the successor does. Its clients would wait for the grace of an epoch that begins without a hand-over.
job::Task<void> Member::wait_for_successor(job::StopToken stop) {
  job::DeadlineScope scope(executor_, executor_.now() + options_.timing.message, stop);
  const job::StopToken token = scope.token();
  const std::string key = record_key(options_.group);
  while (record_.primary == options_.self && !token.stopped()) {
    std::ignore = co_await executor_.sleep(options_.timing.look / 10, token);
    const auto seen = co_await coordinator_.read(key, token);
    const coord::Record* const found = seen ? seen->find(key) : nullptr;
    if (found == nullptr) continue;
    const auto record = decode_group_record(found->value);
    if (record && record->primary != options_.self) co_return;
  }
}

}  // namespace spate::group
