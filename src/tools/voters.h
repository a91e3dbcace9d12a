// SPDX-License-Identifier: Apache-2.0
// The members of etcd as an operator sees them: which ones are up, and what to do about the others.
#pragma once

#include <string>
#include <vector>

#include "config/filesystem_config.h"

namespace spate::tools {

struct VoterState {
  std::string name;       // empty: it has not started yet, or this machine may not ask etcd for names
  std::string url;        // for clients; of one that has not started yet, for the other members
  bool votes = true;      // false: it still receives the records of etcd
  bool started = true;    // false: no process of it has run yet
  std::string problem{};  // empty: it answers, and has contact with a majority
};

/// "etcd-3 (https://10.0.0.3:7402)", or the URL alone.
std::string shown_voter(const VoterState& voter);
/// The advice for each member with a problem. Empty: there is none. Pure.
std::string advice_for(const std::vector<VoterState>& voters);

/// The error of a request to etcd, with what to do if most of its members do not answer. Pure.
Error etcd_error(const Error& error);

/// The problem that this answer of check() in coord/voters.h means.
std::string problem_of(const Result<void>& checked);
/// Asks each member of the file system's etcd. Without an answer to which members there are, or without certificates
/// for etcd on this machine, it looks at those that spate.toml names, in the second case only whether they listen.
/// All are asked at the same time. Takes up to 2 s if some do not answer, twice that if spate.toml does not name them.
std::vector<VoterState> look_at_voters(const config::FileSystemConfig& config);

}  // namespace spate::tools
