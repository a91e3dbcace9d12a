// SPDX-License-Identifier: Apache-2.0
// QueueingClients: the clients of a random program, of which the first two have the memory of a mount.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/expect.h"
#include "tests/cluster/calls.h"
#include "tests/cluster/mount_memory.h"

namespace spate::cluster {

/// Clients 0 and 1 queue changes and gather writes, and are killed and replaced; client 2 asks the servers. One of them
/// calls at a time.
class QueueingClients {
 protected:
  explicit QueueingClients(std::uint64_t seed) : random_(seed), world_(world_of(seed)) {
    for (int i = 0; i < 2; ++i) {
      memories_.push_back(std::make_unique<MountMemory>());
      memory_of_.push_back(memories_.back().get());
      clients_.push_back(&start(memory_of_.back()));
    }
    clients_.push_back(&start(nullptr));
  }

  /// In every third world messages take different times.
  static WorldOptions world_of(std::uint64_t seed) {
    WorldOptions options;
    options.seed = seed;
    if (seed % 3 == 2) options.fabric.link.jitter = std::chrono::microseconds(300);
    return options;
  }
  /// How many changes the clients have answered themselves. Complete after expect_no_loss().
  std::uint64_t local() const { return local_; }
  std::uint64_t below(std::uint64_t limit) { return random_.next() % limit; }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  client::Client& client() { return clients_[who_]->client(); }
  template <typename T>
  T call_it(job::Task<T> task) {
    return call(world_, *clients_[who_], std::move(task));
  }

  ClientProcess& start(const MountMemory* memory) {
    client::Options options = small_client_options({}, {}, {});
    options.keep_attributes = true;
    options.deadline = std::chrono::minutes(2);
    if (memory != nullptr) memory->lend_to(options);
    return world_.start_client(std::move(options));
  }

  /// Replaces the process of client `who_`. The next one sends what is left, as that of a mount does.
  void kill_client() {
    memories_.push_back(std::make_unique<MountMemory>(*memory_of_[who_]));
    local_ += client().cluster().queued().counters().queued;
    world_.kill_client(*clients_[who_], bmi::sim::Death::kProcess);
    memory_of_[who_] = memories_.back().get();
    clients_[who_] = &start(memory_of_[who_]);
    client().session().resume();
    EXPECT_TRUE(call_it(client().cluster().queued().send_all_within(std::chrono::seconds(60)))) << what_;
    for (client::GatherMemory::Piece* const piece : memory_of_[who_]->gather().inherited()) {
      EXPECT_OK(call_it(client().queued_files().take_over(*piece))) << what_;
      client().cluster().gathered().taken_over();
    }
  }

  void restart_meta() {
    const ServerId meta = world_.leader();
    world_.kill_server(meta, bmi::sim::Death::kProcess);
    world_.run_for(std::chrono::microseconds(below(200'000)));
    world_.start_server(meta);
    if (one_in(2)) world_.run_for(std::chrono::microseconds(below(500'000)));
  }

  void drop_connection() {
    const std::vector<ServerId> servers = world_.servers();
    const ServerId server = servers[below(servers.size())];
    world_.fabric().drop_connection(server.value, clients_[below(clients_.size())]->node());
  }

  void expect_no_loss() {
    for (ClientProcess* const client : clients_) {
      local_ += client->client().cluster().queued().counters().queued;
      EXPECT_EQ(client->client().cluster().queued().counters().lost, 0U);
      const client::GatherMemory* const gather = client->client().cluster().gathered().memory();
      if (gather != nullptr) EXPECT_EQ(gather->losses().requests, 0U);
    }
  }

  SeededRandom random_;
  std::vector<std::unique_ptr<MountMemory>> memories_;
  World world_;
  std::vector<ClientProcess*> clients_;
  std::vector<MountMemory*> memory_of_;
  std::size_t who_ = 0;  // the client that calls now
  std::string what_;     // the present step, for messages

 private:
  std::uint64_t local_ = 0;
};

}  // namespace spate::cluster
