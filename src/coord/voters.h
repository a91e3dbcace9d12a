// SPDX-License-Identifier: Apache-2.0
// Voters: the members of the service behind a coordinator, and changes of which machines they are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "job/stop.h"
#include "job/task.h"

namespace spate::coord {

struct Voter {
  std::uint64_t id = 0;
  std::string name;        // empty: it was added and has not started yet
  std::string peer_url;    // where the other members reach it
  std::string client_url;  // empty: it has not started yet
  bool learner = false;    // it receives all records and has no vote yet

  friend bool operator==(const Voter&, const Voter&) = default;
};

/// As Coordinator: any number of calls at once, on one executor; the object outlives them. kTryAgain: the service has
/// refused, with its reason as the context. kUnreachable, kTimeout: no member has answered; a change may have been made
/// or be made later, and list() tells.
class Voters {
 public:
  virtual ~Voters() = default;

  virtual job::Task<Result<std::vector<Voter>>> list(job::StopToken stop) = 0;
  /// Asks the member at this client URL, and no other one. kTryAgain: it runs, and has no contact with a majority.
  virtual job::Task<Result<void>> check(std::string client_url, job::StopToken stop) = 0;
  /// Adds a learner, so that the number of votes that a decision needs does not grow before the member runs.
  virtual job::Task<Result<void>> add(std::string peer_url, job::StopToken stop) = 0;
  /// Gives a learner a vote. kTryAgain too while it lacks records.
  virtual job::Task<Result<void>> promote(std::uint64_t id, job::StopToken stop) = 0;
  virtual job::Task<Result<void>> remove(std::uint64_t id, job::StopToken stop) = 0;
};

}  // namespace spate::coord
