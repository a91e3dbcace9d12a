// SPDX-License-Identifier: Apache-2.0
// The advice about members of etcd.
#include <fmt/core.h>

#include "tools/voters.h"

namespace spate::tools {
namespace {

std::string advice_for_one(const VoterState& voter) {
  if (!voter.started)
    return fmt::format(
        "the member of etcd at {0} has not started yet: type the `spate join` line on its machine again, or take it "
        "out "
        "by `spate coord remove {0}`",
        voter.url);
  const std::string start =
      fmt::format("`spate up` on the machine of {} starts that member of etcd", shown_voter(voter));
  if (voter.name.empty()) return start;
  return fmt::format(
      "{}. If the machine is gone for good, `spate coord remove {}` takes its vote, and `spate join` with --vote-only "
      "gives one to another machine",
      start, voter.name);
}

}  // namespace

Error etcd_error(const Error& error) {
  if (error.code() != Errc::kUnreachable && error.code() != Errc::kTimeout) return error;
  return Error::told(error.code(), "most members of etcd must answer, and they do not (" + error.message() +
                                       "): `spate status` shows which ones, and `spate up` on their machines starts "
                                       "them");
}

std::string shown_voter(const VoterState& voter) {
  return voter.name.empty() ? voter.url : fmt::format("{} ({})", voter.name, voter.url);
}

std::string advice_for(const std::vector<VoterState>& voters) {
  std::string all;
  for (const VoterState& voter : voters) {
    if (!voter.problem.empty()) all += (all.empty() ? "" : "; ") + advice_for_one(voter);
  }
  return all;
}

}  // namespace spate::tools
