// SPDX-License-Identifier: Apache-2.0
// EtcdCoordinator: a coordinator over an etcd cluster.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "coord/coordinator.h"
#include "coord/etcd/http.h"
#include "coord/voters.h"
#include "job/executor.h"

namespace spate::coord {

struct EtcdOptions {
  std::vector<std::string> urls;   // client URLs of the members: "http://10.0.0.1:2379"; at least one
  HttpTls tls = {};                // if the URLs begin with https://
  std::string prefix = "/spate/";  // prefix of all keys, so that several file systems can use one cluster
  /// How long each member may take to answer. One without a quorum would answer only after 7 s (tried, 3.4.23).
  Duration timeout = std::chrono::seconds(1);
  /// The same for list() and check(), which change nothing.
  Duration look_timeout = std::chrono::seconds(2);
};

/// Asks the member that answered last, then the others, each for EtcdOptions::timeout. A change goes to another member
/// only if it cannot have reached the one before. list() asks all at the same time, and takes the first good answer.
/// One executor, which outlives it; destroyed when no call is under way. The destructor ends the requests that stopped
/// calls have left.
class EtcdCoordinator final : public Coordinator, public Voters {
 public:
  EtcdCoordinator(EtcdOptions options, job::Executor& executor);

  job::Task<Result<Snapshot>> read(std::string prefix, job::StopToken stop) override;
  job::Task<Result<std::uint64_t>> change(Change change, job::StopToken stop) override;

  job::Task<Result<std::vector<Voter>>> list(job::StopToken stop) override;
  job::Task<Result<void>> check(std::string client_url, job::StopToken stop) override;
  job::Task<Result<void>> add(std::string peer_url, job::StopToken stop) override;
  job::Task<Result<void>> promote(std::uint64_t id, job::StopToken stop) override;
  job::Task<Result<void>> remove(std::uint64_t id, job::StopToken stop) override;

 private:
  job::Task<Result<std::string>> ask_all(std::string path, std::string body, job::StopToken stop);
  job::Task<Result<HttpAnswer>> ask(std::string path, std::string body, job::StopToken stop);
  job::Task<Result<HttpAnswer>> ask_at(std::string url, std::string body, Duration timeout, job::StopToken stop);

  const EtcdOptions options_;
  job::Executor& executor_;
  std::size_t member_ = 0;  // the next one to ask
  HttpClient http_;         // last: its actions use the executor
};

}  // namespace spate::coord
