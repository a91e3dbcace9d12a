// SPDX-License-Identifier: Apache-2.0
#include "fsck/copy_repair.h"

#include <chrono>
#include <tuple>

#include "wire/mirror_messages.h"

namespace spate::fsck {
namespace {

constexpr Duration kRecordPause = std::chrono::milliseconds(200);
/// A member that is absent for so long does not return by itself. One that is joining is given all the time it needs.
constexpr Duration kMostAbsence = std::chrono::minutes(2);
constexpr int kMostTries = 5;  // another member of the group may return or become the primary meanwhile
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

job::Task<Result<void>> CopyRepair::run(std::vector<WrongCopy>& copies, unsigned pass) {
  std::map<std::tuple<TargetId, TargetId, TargetId>, Batch> all;
  for (WrongCopy& copy : copies) all[{copy.pair.group, copy.pair.there, copy.pair.here}].push_back(&copy);
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
  wire::CopyRenewRequest request;
  request.group = pair.group;
  request.member = pair.there;
  request.source = pair.here;
  for (const WrongCopy* const copy : batch)
    request.datafiles.push_back({copy->pair.handle, {copy->pair.slot, pair.there}});
  Result<wire::CopyRenewReply> reply = Errc::kTryAgain;
  for (int tries = 0; tries < kMostTries && may_pass(reply.code()); ++tries) {
    if (tries > 0) std::ignore = co_await servers_.executor().sleep(kTryPause, {});
    SPATE_CO_TRY(const DataGroup record, co_await record_of(pair.group));
    if (record.primary != pair.here && record.primary != pair.there) {
      tell(batch, Outcome::kLeft,
           "the copy of " + number_of(record.primary) + ", the group's primary, has to be looked at first");
      co_return Result<void>();
    }
    const ServerId server = servers_.server_of(record.primary);
    if (!server) co_return Errc::kStaleMap;
    reply = co_await servers_.ask_io<wire::CopyRenewReply>(server, request);
  }
  if (!reply) {
    tell(batch, Outcome::kLeft, reply.error().message());
    co_return Result<void>();
  }
  SPATE_CO_TRY(const bool serves, co_await wait_until_it_serves(pair, reply->epoch));
  if (serves) {
    auto looked = co_await look_at(batch);
    co_return looked;
  }
  tell(batch, Outcome::kLeft, "its server has not returned to the group: see `spate status` and the servers' logs");
  co_return Result<void>();
}

job::Task<Result<bool>> CopyRepair::wait_until_it_serves(const CopyPair& pair, std::uint64_t epoch) {
  MonoTime absent_since = servers_.executor().now();
  while (servers_.executor().now() < absent_since + kMostAbsence) {
    SPATE_CO_TRY(const DataGroup record, co_await record_of(pair.group));
    const GroupMember* const member = record.find(pair.there);
    if (member == nullptr) co_return false;  // another server has taken its place
    if (record.epoch > epoch && member->state == MemberState::kServing) co_return true;
    if (member->state == MemberState::kJoining) absent_since = servers_.executor().now();
    std::ignore = co_await servers_.executor().sleep(kRecordPause, {});
  }
  co_return false;
}

/// The sizes show whether something was copied. The next pass compares the contents.
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
      tell(batch, Outcome::kLeft, "it was copied, but its server does not answer now: run fsck again");
      co_return Result<void>();
    }
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const wire::DatafilePresence& right = found[0]->datafiles[i];
    const wire::DatafilePresence& renewed = found[1]->datafiles[i];
    if (right.present == renewed.present) {
      batch[i]->outcome = Outcome::kRepaired;
      batch[i]->note = "it was copied from " + number_of(pair.here);
    } else {
      batch[i]->note = "it was not copied: run fsck again";
    }
  }
  co_return Result<void>();
}

}  // namespace spate::fsck
