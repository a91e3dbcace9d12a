// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/client_process.h"

namespace spate::cluster {

client::Options small_client_options(ClusterMap map, Key client_key, std::string description) {
  client::Options options;
  options.map = std::move(map);
  options.client_key = client_key;
  options.description = std::move(description);
  options.deadline = std::chrono::seconds(8);
  options.attempt_timeout = std::chrono::milliseconds(1500);
  options.unit_bytes = 8192;
  options.inline_read_bytes = 4096;
  options.inline_write_bytes = 4096;
  options.max_transfer_bytes = 64 * 1024;
  options.bypass_when = {16 * 1024, 2, std::chrono::milliseconds(30)};
  return options;
}

namespace {

client::Options with_files(client::Options options, client::LeasedFiles& files) {
  options.leased_files = &files;
  return options;
}

}  // namespace

ClientProcess::ClientProcess(Ether ether, std::uint32_t node, std::uint64_t seed, client::Options options,
                             LeaseMachine machine)
    : Process(ether, node, seed),
      gate_(executor_),
      work_(executor_),
      leased_(executor_, random_, std::move(machine)),
      client_(with_files(std::move(options), leased_), *context_, random_) {}

void ClientProcess::die() {
  alive_ = false;
  leased_.die();
  quit();
}

void ClientProcess::quit() {
  if (stopping_) return;
  stopping_ = true;
  job::spawn(gate_, stop());
}

job::Task<void> ClientProcess::stop() {
  if (!alive_) {
    client_.cluster().events().request_stop();
    co_await client_.cluster().locks().stop();  // ends waits for locks, which only other clients could end
  }
  co_await work_.close();
  co_await client_.stop();
  ended_ = true;
}

}  // namespace spate::cluster
