// SPDX-License-Identifier: Apache-2.0
// ClientProcess: a simulated process that uses the file system through the client library.
#pragma once

#include "client/client.h"
#include "tests/cluster/leased_files.h"
#include "tests/cluster/process.h"

namespace spate::cluster {

/// The library's limits in the simulation. They are small, so that few bytes use every kind of transfer.
client::Options small_client_options(ClusterMap map, Key client_key, std::string description);

/// Tasks that use the client run behind gate(). They check alive() after each await, and end when it is false.
class ClientProcess final : public Process {
 public:
  ClientProcess(Ether ether, std::uint32_t node, std::uint64_t seed, client::Options options, LeaseMachine machine);

  void die() override;
  /// Ends the process in order, with its session. Tasks behind the gate must end by themselves.
  void quit();
  bool ended() const override { return ended_ && gate_.count() == 0; }

  client::Client& client() { return client_; }
  job::Gate& gate() { return work_; }
  SimLeasedFiles& leased() { return leased_; }

 private:
  job::Task<void> stop();

  job::Gate gate_;
  job::Gate work_;
  SimLeasedFiles leased_;
  client::Client client_;
  bool stopping_ = false;
  bool ended_ = false;
};

}  // namespace spate::cluster
