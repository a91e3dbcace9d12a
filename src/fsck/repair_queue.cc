// SPDX-License-Identifier: Apache-2.0
#include "fsck/repair_queue.h"

#include <algorithm>
#include <tuple>

#include "base/checksum.h"

namespace spate::fsck {
namespace {

using wire::Damage;
using wire::RepairOutcome;

/// Suspicions that are examined and repaired at the same time.
constexpr std::size_t kAtOnce = 16;
constexpr std::size_t kMaxRemembered = 1U << 20U;
/// Lifetime of the tombstone of a removed orphan: longer than that of any capability for its file.
constexpr Duration kTombstoneLife = std::chrono::hours(25);

bool is_of_datafile(Damage damage) {
  return damage == Damage::kOrphanDatafile || damage == Damage::kMisplacedDatafile ||
         damage == Damage::kDatafileNotGiven;
}

bool is_of_copies(Damage damage) {
  return damage == Damage::kUnequalCopies || damage == Damage::kUnequalContents || damage == Damage::kMissingCopy;
}

/// The order of repairs: counts while the entries are still as they were counted; directories before the entries that
/// go into them; datafiles last, after everything has been saved that can be.
int order_of(Damage damage) {
  switch (damage) {
    case Damage::kWrongDirectoryCounts: return 0;
    case Damage::kMissingDirectory: return 1;
    case Damage::kWrongEntryType:
    case Damage::kMisfiledEntry: return 2;
    case Damage::kWrongParent: return 3;
    case Damage::kSecondName: return 4;
    case Damage::kDirectoryLoop: return 5;
    case Damage::kOrphanInode: return 6;
    case Damage::kDanglingEntry: return 7;
    default: return is_of_datafile(damage) ? 20 : 10;
  }
}

/// Equal for two findings about the same damage.
std::uint64_t identity(const wire::Finding& finding) {
  wire::Finding same;
  same.damage = finding.damage;
  same.handle = finding.handle;
  // An object has at most one finding of these kinds, wherever it was found.
  if (finding.damage != Damage::kMissingDirectory && finding.damage != Damage::kWrongSize) {
    same.directory = finding.directory;
    same.name = finding.name;
    same.slot = finding.slot;
  }
  same.client = finding.client;
  same.epoch = finding.epoch;
  same.key = finding.key;
  Bytes bytes;
  wire::encode_body(same, bytes);
  return hash64(bytes, 0);
}

}  // namespace

void RepairQueue::begin_pass(unsigned pass) {
  pass_ = pass;
  suspicions_.clear();
  met_.clear();
  without_size_.clear();
  overflowed_ = false;
  left_ = 0;
  undecided_ = 0;
}

void RepairQueue::suspect(wire::Finding finding, std::string leave) {
  if (suspicions_.size() >= options_.max_findings && options_.repair) {
    overflowed_ = true;
    return;
  }
  suspicions_.push_back({std::move(finding), std::move(leave)});
}

void RepairQueue::leave_size(Handle handle, const std::string& why) {
  for (Suspicion& suspicion : suspicions_) {
    if (suspicion.finding.damage == Damage::kWrongSize && suspicion.finding.handle == handle) suspicion.leave = why;
  }
}

std::set<Handle> RepairQueue::wrong_sizes() const {
  std::set<Handle> found;
  for (const Suspicion& suspicion : suspicions_) {
    if (suspicion.finding.damage == Damage::kWrongSize) found.insert(suspicion.finding.handle);
  }
  return found;
}

void RepairQueue::conclude(wire::Finding finding, Outcome outcome, std::string note) {
  wire::MetaRepairReply reply;
  reply.note = std::move(note);
  report(Suspicion{std::move(finding), {}}, reply, outcome);
}

job::Task<Result<void>> RepairQueue::make_room() {
  if (options_.repair || suspicions_.size() < options_.max_findings) co_return Result<void>();
  auto settled = co_await settle();
  co_return settled;
}

job::Task<Result<void>> RepairQueue::settle() {
  std::vector<Suspicion> all = std::move(suspicions_);
  suspicions_.clear();
  std::erase_if(all, [this](const Suspicion& suspicion) {
    return suspicion.finding.damage == Damage::kWrongSize && without_size_.contains(suspicion.finding.handle);
  });
  std::sort(all.begin(), all.end(), [](const Suspicion& a, const Suspicion& b) {
    // If a missing directory's place is known, it is rebuilt there, so that finding comes first.
    const auto key = [](const wire::Finding& f) {
      return std::tuple(order_of(f.damage), f.damage, ~f.directory.value, f.name, f.handle, f.slot.target, f.slot.slot);
    };
    return key(a.finding) < key(b.finding);
  });
  for (std::size_t begin = 0; begin < all.size();) {
    tell_progress(begin, all.size());
    const int order = order_of(all[begin].finding.damage);
    job::Gate gate(servers_.executor());
    Result<void> failure;
    std::size_t end = begin;
    for (; end < all.size() && end < begin + kAtOnce && order_of(all[end].finding.damage) == order; ++end) {
      const bool fresh = met_.size() >= kMaxRemembered || met_.insert(identity(all[end].finding)).second;
      if (fresh) job::spawn(gate, settle_one(all[end], failure));
    }
    co_await gate.close();
    if (!failure) co_return failure;
    begin = end;
  }
  if (!all.empty()) tell_progress(all.size(), all.size());
  co_return Result<void>();
}

job::Task<void> RepairQueue::settle_one(Suspicion& suspicion, Result<void>& failure) {
  auto settled = co_await look_and_mend(suspicion);
  if (!settled) failure = std::move(settled);
}

job::Task<Result<void>> RepairQueue::look_and_mend(Suspicion& suspicion) {
  const bool of_datafile = is_of_datafile(suspicion.finding.damage);
  Result<wire::MetaRepairReply> reply = Errc::kUnknown;
  if (is_of_copies(suspicion.finding.damage)) {  // CopyCheck has looked several times already
    wire::MetaRepairReply confirmed;
    confirmed.outcome = RepairOutcome::kConfirmed;
    reply = std::move(confirmed);
  } else if (of_datafile) {
    reply = co_await ask_about_datafile(suspicion.finding, false);
  } else {
    reply = co_await ask_meta(suspicion.finding, false);
  }
  if (!reply) co_return std::move(reply).error();
  const bool mend = reply->outcome == RepairOutcome::kConfirmed && options_.repair && suspicion.leave.empty();
  if (mend) {
    const wire::MetaRepairReply look = *std::move(reply);
    if (of_datafile) {
      reply = co_await ask_about_datafile(suspicion.finding, true);
    } else {
      reply = co_await ask_meta(suspicion.finding, true);
    }
    if (!reply) {
      wire::MetaRepairReply failed = look;
      failed.outcome = RepairOutcome::kLeft;
      failed.note = reply.error().message();
      reply = std::move(failed);
    }
    if (reply->path.empty()) reply->path = look.path;
  }
  switch (reply->outcome) {
    case RepairOutcome::kConfirmed:
      if (!suspicion.leave.empty()) reply->note = suspicion.leave;
      report(suspicion, *reply, suspicion.leave.empty() ? Outcome::kFound : Outcome::kLeft);
      break;
    case RepairOutcome::kRepaired: report(suspicion, *reply, Outcome::kRepaired); break;
    case RepairOutcome::kLeft: report(suspicion, *reply, Outcome::kLeft); break;
    case RepairOutcome::kChanged: ++undecided_; break;
    default: break;
  }
  co_return Result<void>();
}

RepairQueue::Step RepairQueue::ask_meta(const wire::Finding& finding, bool apply) {
  wire::MetaRepairRequest request;
  request.finding = finding;
  request.apply = apply;
  auto reply = co_await servers_.ask_meta<wire::MetaRepairReply>(request);
  co_return reply;
}

job::Task<Result<wire::Verdict>> RepairQueue::cross_check(const wire::Finding& finding) {
  wire::MetaJudgeRequest request;
  request.datafiles.push_back({finding.handle, finding.slot, finding.actual});
  SPATE_CO_TRY(const auto reply, co_await servers_.ask_meta<wire::MetaJudgeReply>(request));
  if (reply.judgements.size() != 1) co_return Error(Errc::kProtocol, "meta judge");
  co_return reply.judgements[0].verdict;
}

RepairQueue::Step RepairQueue::ask_about_datafile(const wire::Finding& finding, bool apply) {
  wire::MetaRepairReply reply;
  SPATE_CO_TRY(const wire::Verdict verdict, co_await cross_check(finding));
  wire::DatafileProbeRequest probe;
  probe.datafiles.push_back({finding.handle, finding.slot});
  const ServerId server = servers_.server_of(finding.slot.target);
  if (!server) co_return reply;
  const auto presence = co_await servers_.ask_io<wire::DatafileProbeReply>(server, probe);
  if (!presence) {
    reply.outcome = RepairOutcome::kLeft;
    reply.note = presence.error().message();
    co_return reply;
  }
  if (presence->datafiles.size() != 1) co_return Error(Errc::kProtocol, servers_.name_of(server));
  if (!presence->datafiles[0].present) co_return reply;
  if (verdict == wire::Verdict::kMisplaced || verdict == wire::Verdict::kNotGiven) {
    reply.outcome = RepairOutcome::kLeft;
    reply.note = verdict == wire::Verdict::kMisplaced
                     ? "nothing reads it: see docs/fsck.md, \"By hand\""
                     : "the meta server's store may be an old copy: nothing is removed; see docs/fsck.md, \"By hand\"";
    co_return reply;
  }
  if (verdict != wire::Verdict::kOrphan) co_return reply;
  reply.outcome = RepairOutcome::kConfirmed;
  if (!apply) co_return reply;
  // A handle that has lost its inode never gets one again, so nothing can have changed since.
  SPATE_CO_TRY(std::ignore, co_await remove_datafile(finding));
  reply.outcome = RepairOutcome::kRepaired;
  reply.note = "it was removed";
  co_return reply;
}

job::Task<Result<void>> RepairQueue::remove_datafile(const wire::Finding& finding) {
  wire::DatafileRemoveRequest request;
  request.datafiles.push_back({finding.handle, finding.slot});
  request.tombstone_until = WallTime{servers_.executor().clock().wall().ns + kTombstoneLife.count()};
  const ServerId server = servers_.server_of(finding.slot.target);
  SPATE_CO_TRY(std::ignore, co_await servers_.ask_io<wire::DatafileRemoveReply>(server, request));
  co_return Result<void>();
}

void RepairQueue::report(const Suspicion& suspicion, const wire::MetaRepairReply& reply, Outcome outcome) {
  if (outcome == Outcome::kRepaired) {
    ++repaired_;
  } else {
    ++left_;
    const bool full = reported_.size() >= kMaxRemembered;
    if (!full && !reported_.insert(identity(suspicion.finding)).second) return;  // reported in an earlier pass
  }
  ++found_;
  observer_.found({suspicion.finding, outcome, reply.note, reply.path});
}

void RepairQueue::tell_progress(std::size_t done, std::size_t all) {
  Progress progress;
  progress.pass = pass_;
  progress.phase = Phase::kRepairs;
  progress.done = done;
  progress.expected = all;
  observer_.progress(progress);
}

}  // namespace spate::fsck
