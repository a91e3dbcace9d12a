// SPDX-License-Identifier: Apache-2.0
#include "fsck/parents.h"

#include "job/gate.h"

namespace spate::fsck {
namespace {

/// Objects that are filled at the same time.
constexpr std::size_t kFilledAtOnce = 16;

/// The result of one filling.
struct Filling {
  std::uint64_t filled = 0;
  Result<void> failure;
};

job::Task<void> fill_one(Servers& servers, const wire::Finding& finding, Filling& filling) {
  wire::MetaRepairRequest request;
  request.finding = finding;
  request.apply = true;
  const auto reply = co_await servers.ask_meta<wire::MetaRepairReply>(request);
  if (!reply) {
    filling.failure = reply.error();
  } else if (reply->outcome == wire::RepairOutcome::kRepaired) {
    ++filling.filled;
  }
}

job::Task<Result<void>> fill_all(Servers& servers, const std::vector<wire::Finding>& findings, Filling& filling) {
  for (std::size_t begin = 0; begin < findings.size(); begin += kFilledAtOnce) {
    job::Gate gate(servers.executor());
    const std::size_t end = std::min(findings.size(), begin + kFilledAtOnce);
    for (std::size_t i = begin; i < end; ++i) job::spawn(gate, fill_one(servers, findings[i], filling));
    co_await gate.close();
    if (!filling.failure) co_return filling.failure;
  }
  co_return {};
}

}  // namespace

job::Task<Result<std::uint64_t>> fill_parents(Servers& servers, const Options& options) {
  Filling filling;
  wire::MetaScanRequest request;
  request.what = wire::ScanKind::kParents;
  request.max = options.page;
  for (bool more = true; more;) {
    auto reply = co_await servers.ask_meta<wire::MetaScanReply>(request, wire::kScanReplyRoom);
    if (reply.code() == Errc::kNotSupported) break;
    if (!reply) co_return std::move(reply).error();
    if (!reply->end && reply->next <= request.after)
      co_return Error(Errc::kProtocol, servers.name_of(servers.meta_server()) + ": a scan that does not go on");
    SPATE_CO_TRY(std::ignore, co_await fill_all(servers, reply->findings, filling));
    more = !reply->end;
    request.after = std::move(reply->next);
  }
  co_return filling.filled;
}

}  // namespace spate::fsck
