// SPDX-License-Identifier: Apache-2.0
#include "fsck/copy_repair.h"

#include <algorithm>
#include <chrono>
#include <tuple>

#include "wire/mirror_messages.h"

namespace spate::fsck {
namespace {

constexpr Duration kRecordPause = std::chrono::milliseconds(200);
/// A member that is absent for so long does not return by itself. One that is joining is given all the time it needs.
constexpr Duration kMostAbsence = std::chrono::minutes(2);
constexpr int kMostReturns = 3;  // that fail
constexpr int kMostTries = 5;    // another member of the group may return or become the primary meanwhile
constexpr Duration kTryPause = std::chrono::seconds(2);

std::string number_of(TargetId target) { return "target " + std::to_string(target.value); }

void tell(const std::vector<WrongCopy*>& batch, Outcome outcome, const std::string& note) {
  for (WrongCopy* const copy : batch) {
    copy->outcome = outcome;
    copy->note = note;
  }
}

bool may_pass(Errc code) { return code == Errc::kNotPrimary || code == Errc::kTryAgain; }

}  // namespace

/// The copies of backups come first.
job::Task<Result<void>> CopyRepair::run(std::vector<WrongCopy>& copies, unsigned pass) {
  std::map<std::tuple<bool, TargetId, TargetId, TargetId>, Batch> all;
  for (WrongCopy& copy : copies) {
    all[{copy.of_primary, copy.pair.group, copy.pair.there, copy.pair.here}].push_back(&copy);
  }
  std::uint64_t done = 0;
  for (const auto& [key, of_member] : all) {
    for (std::size_t begin = 0; begin < of_member.size(); begin += wire::kMaxProbed) {
      observer_.progress({pass, Phase::kRepairs, done, copies.size()});
      const auto first = of_member.begin() + static_cast<std::ptrdiff_t>(begin);
      const std::size_t count = std::min(of_member.size() - begin, wire::kMaxProbed);
      const Batch batch(first, first + static_cast<std::ptrdiff_t>(count));
      SPATE_CO_TRY(std::ignore, co_await renew(batch));
      done += count;
    }
    const CopyPair& pair = of_member.front()->pair;
    const auto is_left = [](const WrongCopy* copy) { return copy->outcome != Outcome::kRepaired; };
    if (std::ranges::any_of(of_member, is_left))
      distrust({pair.group, pair.there}, "its own copies are not all repaired");
  }
  co_return Result<void>();
}

job::Task<Result<DataGroup>> CopyRepair::record_of(TargetId group) {
  wire::DataGroupsRequest request;
  request.groups.push_back(group);
  SPATE_CO_TRY(auto reply, co_await servers_.ask_meta<wire::DataGroupsReply>(request));
  if (reply.groups.size() != 1) co_return Error(Errc::kProtocol, "data groups");
  co_return std::move(reply.groups.front());
}

job::Task<Result<void>> CopyRepair::renew(const Batch& batch) {
  const CopyPair& pair = batch.front()->pair;
  for (int tries = 0; tries < kMostTries; ++tries) {
    if (tries > 0) std::ignore = co_await servers_.executor().sleep(kTryPause, {});
    SPATE_CO_TRY(const DataGroup record, co_await record_of(pair.group));
    if (record.primary == pair.there && !batch.front()->of_primary) {
      tell(batch, Outcome::kLeft, "it leads its group since a moment ago: run fsck again");
      co_return Result<void>();
    }
    if (record.primary == pair.there) {
      SPATE_CO_TRY(const bool moved, co_await make_primary(batch));
      if (!moved) co_return Result<void>();
    } else if (record.primary == pair.here) {
      SPATE_CO_TRY(const bool served, co_await ask(batch, pair.here));
      if (!served) co_return Result<void>();
      auto looked = co_await look_at(batch);
      co_return looked;
    } else {
      tell(batch, Outcome::kLeft,
           "the copy of " + number_of(record.primary) + ", the group's primary, has to be looked at first");
      co_return Result<void>();
    }
  }
  tell(batch, Outcome::kLeft, "the lead of the group keeps changing: run fsck again");
  co_return Result<void>();
}

/// Makes the member with the right copies the primary.
job::Task<Result<bool>> CopyRepair::make_primary(const Batch& batch) {
  const CopyPair& pair = batch.front()->pair;
  const auto distrusted = distrusted_.find({pair.group, pair.here});
  if (distrusted == distrusted_.end()) {
    auto moved = co_await ask(batch, pair.there);
    co_return moved;
  }
  tell(batch, Outcome::kLeft,
       number_of(pair.here) + " has a good copy, but does not become the group's primary as it would have to: " +
           distrusted->second + ". Repair that first, then run fsck again");
  co_return false;
}

/// Has the member with the wrong copies leave the group, and waits until it is back. False: the outcome is set.
job::Task<Result<bool>> CopyRepair::ask(const Batch& batch, TargetId primary) {
  const CopyPair& pair = batch.front()->pair;
  wire::CopyRenewRequest request;
  request.group = pair.group;
  request.member = pair.there;
  request.source = pair.here;
  for (const WrongCopy* const copy : batch)
    request.datafiles.push_back({copy->pair.handle, {copy->pair.slot, pair.there}});
  const ServerId server = servers_.server_of(primary);
  if (!server) co_return Errc::kStaleMap;
  Result<wire::CopyRenewReply> reply = Errc::kTryAgain;
  for (int tries = 0; tries < kMostTries && may_pass(reply.code()); ++tries) {
    if (tries > 0) std::ignore = co_await servers_.executor().sleep(kTryPause, {});
    reply = co_await servers_.ask_once<wire::CopyRenewReply>(server, request);
  }
  if (!reply) {
    tell(batch, Outcome::kLeft, reply.error().message());
    co_return false;
  }
  SPATE_CO_TRY(const bool serves, co_await wait_until_it_serves(pair, reply->epoch));
  if (!serves) {
    const std::string log = "see `spate status`, and the log of " + servers_.name_of(servers_.server_of(pair.there));
    tell(batch, Outcome::kLeft, "its server has not returned to the group: " + log);
  }
  co_return serves;
}

job::Task<Result<bool>> CopyRepair::wait_until_it_serves(const CopyPair& pair, std::uint64_t epoch) {
  MonoTime absent_since = servers_.executor().now();
  bool joining = false;
  std::uint64_t absent_in = 0;  // epoch; 0: the member was not absent yet
  for (int failed = 0; failed < kMostReturns && servers_.executor().now() < absent_since + kMostAbsence;) {
    SPATE_CO_TRY(const DataGroup record, co_await record_of(pair.group));
    const GroupMember* const member = record.find(pair.there);
    if (member == nullptr) co_return false;  // another server has taken its place
    if (record.epoch > epoch && member->state == MemberState::kServing) co_return true;
    if (member->state == MemberState::kJoining) absent_since = servers_.executor().now();
    const bool absent = member->state == MemberState::kAbsent;
    // A return that fails at once is over before the next look. It has changed the record twice.
    if (absent && (joining || (absent_in != 0 && record.epoch >= absent_in + 2))) ++failed;
    joining = member->state == MemberState::kJoining;
    absent_in = absent ? record.epoch : 0;
    std::ignore = co_await servers_.executor().sleep(kRecordPause, {});
  }
  co_return false;
}

/// The sizes show whether something was copied. The contents are compared where they were wrong.
job::Task<Result<void>> CopyRepair::look_at(const Batch& batch) {
  const CopyPair& pair = batch.front()->pair;
  std::vector<Result<wire::DatafileProbeReply>> found;
  for (const TargetId target : {pair.here, pair.there}) {
    wire::DatafileProbeRequest request;
    for (const WrongCopy* const copy : batch)
      request.datafiles.push_back({copy->pair.handle, {copy->pair.slot, target}});
    auto reply = co_await servers_.ask_io<wire::DatafileProbeReply>(servers_.server_of(target), request);
    found.push_back(std::move(reply));
    if (!found.back() || found.back()->datafiles.size() != batch.size()) {
      tell(batch, Outcome::kLeft,
           servers_.name_of(servers_.server_of(target)) +
               " does not answer now, so it is not known whether the copy was made: run fsck again");
      co_return Result<void>();
    }
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const wire::DatafilePresence& right = found[0]->datafiles[i];
    const wire::DatafilePresence& renewed = found[1]->datafiles[i];
    if (!right.present) {
      batch[i]->note = "the other copy is gone, too, or the file was removed: run fsck again";
      continue;
    }
    Result<std::optional<Extent>> part = std::optional<Extent>();
    const bool looks_equal = renewed.present && right.size == renewed.size;
    if (looks_equal && batch[i]->finding.damage != wire::Damage::kMissingCopy)
      part = co_await contents_.unequal_part(batch[i]->pair, right.size);
    if (looks_equal && part && !*part) {
      batch[i]->outcome = Outcome::kRepaired;
      batch[i]->note = number_of(pair.there) + " has a copy of that on " + number_of(pair.here) + " now";
    } else {
      batch[i]->note = part ? "it was not copied, or has changed since: run fsck again" : part.error().message();
    }
  }
  co_return Result<void>();
}

}  // namespace spate::fsck
