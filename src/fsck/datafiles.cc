// SPDX-License-Identifier: Apache-2.0
#include "fsck/datafiles.h"

#include <algorithm>

namespace spate::fsck {
namespace {

using wire::Damage;
using wire::Verdict;

/// Datafiles listed by one request. The pages are large, since a server reads a whole hashed folder for each.
constexpr std::uint32_t kListed = 4096;
constexpr std::uint32_t kListRoom = kListed * 32 + 4096;

bool is_suspicious(Verdict verdict) {
  return verdict == Verdict::kOrphan || verdict == Verdict::kMisplaced || verdict == Verdict::kNotGiven ||
         verdict == Verdict::kTooLong;
}

Damage damage_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kMisplaced: return Damage::kMisplacedDatafile;
    case Verdict::kNotGiven: return Damage::kDatafileNotGiven;
    case Verdict::kTooLong: return Damage::kWrongSize;
    default: return Damage::kOrphanDatafile;
  }
}

}  // namespace

job::Task<Result<void>> DatafileCheck::run(unsigned pass) {
  pass_ = pass;
  Result<void> failure;
  job::Gate gate(servers_.executor());
  for (const ServerEntry& server : servers_.map().servers) {
    if (server.roles.io) job::spawn(gate, check_server(server, failure));
  }
  co_await gate.close();
  std::sort(unchecked_.begin(), unchecked_.end());
  co_return failure;
}

void DatafileCheck::note(ServerId server, const Error& error) {
  std::string text = error.message();
  const std::string name = servers_.name_of(server);
  if (text.find(name) == std::string::npos) text.insert(0, name + ": ");
  unchecked_.push_back(std::move(text));
}

job::Task<void> DatafileCheck::check_server(const ServerEntry& server, Result<void>& failure) {
  for (const TargetId target : server.targets) {
    const auto checked = co_await check_target(server.id, target);
    if (!checked) failure = checked.error();
    if (!checked || !*checked) co_return;
  }
}

job::Task<Result<bool>> DatafileCheck::check_target(ServerId server, TargetId target) {
  wire::DatafileListRequest request;
  request.target = target;
  request.max = std::min(kListed, options_.page * 4);
  for (bool more = true; more;) {
    auto reply = co_await servers_.ask_io<wire::DatafileListReply>(server, request, kListRoom);
    if (reply && !reply->end && reply->datafiles.empty()) {
      reply = Error(Errc::kProtocol, servers_.name_of(server) + ": a list that does not go on");
    }
    if (!reply) {
      note(server, reply.error());
      co_return false;
    }
    more = !reply->end;
    Facts facts;
    for (const wire::DatafileRef& ref : reply->datafiles) {
      facts.push_back({ref.handle, ref.slot, 0});
      if (facts.size() < wire::kMaxJudged && &ref != &reply->datafiles.back()) continue;
      SPATE_CO_TRY(const bool answered, co_await check_page(server, std::move(facts)));
      if (!answered) co_return false;
      facts = Facts();
    }
    if (reply->datafiles.empty()) break;
    request.after_handle = reply->datafiles.back().handle;
    request.after_slot = reply->datafiles.back().slot.slot;
  }
  co_return true;
}

/// Adds the datafiles' sizes, and drops those that no longer exist.
job::Task<Result<bool>> DatafileCheck::probe(ServerId server, Facts& facts) {
  wire::DatafileProbeRequest request;
  for (const wire::DatafileFact& fact : facts) request.datafiles.push_back({fact.handle, fact.slot});
  const auto reply = co_await servers_.ask_io<wire::DatafileProbeReply>(server, request);
  if (!reply || reply->datafiles.size() != facts.size()) {
    note(server, reply ? Error(Errc::kProtocol, "datafile probe") : reply.error());
    co_return false;
  }
  Facts there;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    if (!reply->datafiles[i].present) continue;
    there.push_back(facts[i]);
    there.back().size = reply->datafiles[i].size;
  }
  facts = std::move(there);
  co_return true;
}

job::Task<Result<std::vector<wire::Judgement>>> DatafileCheck::cross_check(const Facts& facts) {
  wire::MetaJudgeRequest request;
  request.datafiles = facts;
  SPATE_CO_TRY(auto reply, co_await servers_.ask_meta<wire::MetaJudgeReply>(request));
  if (reply.judgements.size() != facts.size()) co_return Error(Errc::kProtocol, "meta judge");
  co_return std::move(reply.judgements);
}

job::Task<Result<bool>> DatafileCheck::check_page(ServerId server, Facts page) {
  datafiles_ += page.size();
  SPATE_CO_TRY(const bool answered, co_await probe(server, page));
  if (!answered) co_return false;
  SPATE_CO_TRY(const auto judgements, co_await cross_check(page));
  Facts suspects;
  std::vector<wire::Judgement> verdicts;
  for (std::size_t i = 0; i < page.size(); ++i) {
    if (!is_suspicious(judgements[i].verdict)) continue;
    suspects.push_back(page[i]);
    verdicts.push_back(judgements[i]);
  }
  bool more = true;
  if (!suspects.empty()) {
    SPATE_CO_TRY(more, co_await check_again(server, std::move(suspects), std::move(verdicts)));
  }
  SPATE_CO_TRY(std::ignore, co_await queue_.make_room());
  Progress progress;
  progress.pass = pass_;
  progress.phase = Phase::kDatafiles;
  progress.done = datafiles_;
  observer_.progress(progress);
  co_return more;
}

/// Asks again in the same order. A removal or a truncation may have come between the first two answers, and is no
/// damage. A suspicion counts if the datafile still exists after the verdict and gets the same verdict for the same
/// version of the inode.
job::Task<Result<bool>> DatafileCheck::check_again(ServerId server, Facts suspects,
                                                   std::vector<wire::Judgement> before) {
  std::vector<std::pair<wire::DatafileFact, wire::Judgement>> first;
  for (std::size_t i = 0; i < suspects.size(); ++i) first.emplace_back(suspects[i], before[i]);
  SPATE_CO_TRY(const bool answered, co_await probe(server, suspects));
  if (!answered) co_return false;
  SPATE_CO_TRY(const auto judgements, co_await cross_check(suspects));
  std::size_t at = 0;
  for (std::size_t i = 0; i < suspects.size(); ++i) {
    const auto same = [&](const wire::DatafileFact& fact) {
      return fact.handle == suspects[i].handle && fact.slot.slot == suspects[i].slot.slot;
    };
    while (!same(first[at].first)) ++at;  // datafiles that are gone have been left out
    const wire::Judgement& was = first[at].second;
    if (judgements[i].verdict == was.verdict && judgements[i].version == was.version)
      suspect(suspects[i], judgements[i]);
  }
  co_return true;
}

void DatafileCheck::suspect(const wire::DatafileFact& datafile, const wire::Judgement& judgement) {
  wire::Finding finding;
  finding.damage = damage_of(judgement.verdict);
  finding.handle = datafile.handle;
  finding.slot = datafile.slot;
  finding.actual = datafile.size;
  finding.version = judgement.version;
  finding.recorded = judgement.size;
  queue_.suspect(std::move(finding));
}

}  // namespace spate::fsck
