// SPDX-License-Identifier: Apache-2.0
#include "tools/voters.h"

#include <algorithm>

#include "assembly/coordinator/registry.h"
#include "job/run_all.h"
#include "tools/probe.h"

namespace spate::tools {
namespace {

job::Task<Result<void>> check_one(coord::Voters& voters, VoterState& state) {
  std::string url = state.url;
  const auto checked = co_await voters.check(std::move(url), {});
  state.problem = problem_of(checked);
  co_return Result<void>();
}

job::Task<Result<void>> check_all(coord::Voters& voters, job::Executor& executor, std::vector<VoterState>& states) {
  std::vector<job::Task<Result<void>>> tasks;
  for (VoterState& state : states)
    if (state.started) tasks.push_back(check_one(voters, state));
  auto done = co_await job::run_all(executor, std::move(tasks));
  co_return done;
}

job::Task<Result<void>> list_into(coord::Voters& voters, std::vector<coord::Voter>& listed) {
  SPATE_CO_TRY(listed, co_await voters.list({}));
  co_return Result<void>();
}

/// Asks these members, and at the same time which members there are. `listed` stays empty if no member tells.
job::Task<Result<void>> look(coord::Voters& voters, job::Executor& executor, std::vector<VoterState>& named,
                             std::vector<coord::Voter>& listed) {
  std::vector<job::Task<Result<void>>> tasks;
  tasks.push_back(check_all(voters, executor, named));
  tasks.push_back(list_into(voters, listed));
  auto done = co_await job::run_all(executor, std::move(tasks));
  co_return done;
}

VoterState state_of(const coord::Voter& voter) {
  VoterState state{voter.name, voter.client_url, !voter.learner};
  if (!voter.name.empty() && !voter.client_url.empty()) return state;
  state.url = voter.peer_url;
  state.started = false;
  state.problem = "it has not started yet";
  return state;
}

}  // namespace

std::string problem_of(const Result<void>& checked) {
  if (checked) return "";
  if (checked.code() == Errc::kUnreachable) return "nobody listens there";
  if (checked.code() == Errc::kTimeout) return "it does not answer";
  return checked.error().message();
}

std::vector<VoterState> look_at_voters(const config::FileSystemConfig& config) {
  std::vector<VoterState> states;
  for (const std::string& url : config.meta.coordinator) states.push_back({"", url});
  SystemClock clock;
  job::Executor executor(clock);
  const auto voters = assembly::make_voters(config, executor);
  if (!voters) {
    for (VoterState& state : states) {
      const bool up = answers({"tcp" + state.url.substr(std::min(state.url.find("://"), state.url.size()))});
      state.problem = up ? "" : "nobody listens there";
    }
    return states;
  }
  std::vector<coord::Voter> listed;
  std::ignore = executor.run(look(**voters, executor, states, listed));
  if (listed.empty()) return states;
  std::vector<VoterState> seen;
  std::vector<VoterState> others;  // that spate.toml does not name
  for (const coord::Voter& voter : listed) {
    VoterState state = state_of(voter);
    const auto known = std::ranges::find(states, state.url, &VoterState::url);
    if (state.started && known != states.end()) state.problem = known->problem;
    (known != states.end() ? seen : others).push_back(std::move(state));
  }
  std::ignore = executor.run(check_all(**voters, executor, others));
  std::ranges::move(others, std::back_inserter(seen));
  std::ranges::sort(seen, {}, &VoterState::url);
  return seen;
}

}  // namespace spate::tools
